package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/coord/agent"
)

const (
	// keptLines wait for who reads the agent's lines; what comes on top is counted.
	keptLines = 1024
	// lastLines is how long an agent that ends waits for its lines to be read.
	lastLines = time.Second
)

// agentLog prints what an agent tells, a line each. The agent never waits for it: a pipe
// that nobody reads must not keep ranks from being served.
type agentLog struct {
	app   *app
	lines chan agent.Event
	lost  atomic.Int64
	begin func() // has the lines printed: the one that says that the agent is ready is the first
	ended chan struct{}
}

func (a *app) agentLog() *agentLog {
	begun := make(chan struct{})
	l := &agentLog{app: a, lines: make(chan agent.Event, keptLines), begin: sync.OnceFunc(func() { close(begun) }), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		<-begun
		for e := range l.lines {
			l.print(e)
			if n := l.lost.Swap(0); n > 0 {
				l.print(agent.Event{Time: time.Now(), Kind: "lost", Text: fmt.Sprintf("%d lines: nobody read them in time", n)})
			}
		}
	}()
	return l
}

func (l *agentLog) tell(e agent.Event) {
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

// end prints what is left, if it is read. Nothing is told any more.
func (l *agentLog) end() {
	l.begin()
	close(l.lines)
	select {
	case <-l.ended:
	case <-time.After(lastLines):
	}
}

// print writes a line. One that nobody can read any more is no reason to end.
func (l *agentLog) print(e agent.Event) {
	if l.app.json {
		_ = json.NewEncoder(l.app.stdout).Encode(map[string]string{"time": e.Time.UTC().Format(time.RFC3339Nano), "event": e.Kind, "text": e.Text})
		return
	}
	_, _ = fmt.Fprintf(l.app.stderr, "headrace: %s %s: %s\n", e.Time.Local().Format(time.TimeOnly), e.Kind, e.Text)
}
