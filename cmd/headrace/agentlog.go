package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/headrace/headrace/coord/agent"
)

// agentLog prints what an agent tells, a line each. The agent never waits for it: a pipe
// that nobody reads must not keep ranks from being served. Its first line is the one that says
// that the agent is ready.
type agentLog struct {
	app *app
	*lineLog
}

func (a *app) agentLog() *agentLog {
	l := &agentLog{app: a}
	l.lineLog = newLineLog(func(lines int64) line {
		return l.line(agent.Event{Time: time.Now(), Kind: "lost", Text: missedLines(lines)})
	})
	return l
}

func missedLines(n int64) string { return fmt.Sprintf("%d lines: nobody read them in time", n) }

func (l *agentLog) tell(e agent.Event) { l.put(l.line(e)) }

// line is an event as people or programs read it.
func (l *agentLog) line(e agent.Event) line {
	if l.app.json {
		text, _ := json.Marshal(map[string]string{"time": e.Time.UTC().Format(time.RFC3339Nano), "event": e.Kind, "text": e.Text}) // of texts
		return line{l.app.stdout, append(text, '\n')}
	}
	return line{l.app.stderr, fmt.Appendf(nil, "headrace: %s %s: %s\n", e.Time.Local().Format(time.TimeOnly), e.Kind, e.Text)}
}
