package main

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keptLines wait for who reads the lines of a command that serves; what comes on top is counted.
	keptLines = 1024
	// lastLines is how long such a command waits at its end for its lines to be read.
	lastLines = time.Second
)

// line is one that is to be written.
type line struct {
	to   io.Writer
	text []byte
}

// lineLog writes lines in their order, by a goroutine of its own, so that nobody waits for a
// pipe that is not read or a terminal that is paused: agents have ranks to serve, launchers
// have workers to end.
type lineLog struct {
	lines chan line
	lost  atomic.Int64
	begin func() // has the lines written: what must come first was written before
	ended chan struct{}
}

// newLineLog starts the goroutine, which end ends. missed is the line that tells how many were
// left out, where they are missing.
func newLineLog(missed func(lines int64) line) *lineLog {
	begun := make(chan struct{})
	l := &lineLog{lines: make(chan line, keptLines), begin: sync.OnceFunc(func() { close(begun) }), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		<-begun
		for next := range l.lines {
			next.write()
			if n := l.lost.Swap(0); n > 0 {
				missed(n).write()
			}
		}
	}()
	return l
}

// write does no more than try: a line that nobody can read any more is no reason to end.
func (l line) write() { _, _ = l.to.Write(l.text) }

// put has a line written. It never waits, and owns the text from here on.
func (l *lineLog) put(next line) {
	select {
	case l.lines <- next:
	default:
		l.lost.Add(1)
	}
}

// end writes what is left, if it is read. Nothing is put any more.
func (l *lineLog) end() {
	l.begin()
	close(l.lines)
	select {
	case <-l.ended:
	case <-time.After(lastLines):
	}
}

// patient is a writer whose Write does not wait for the reader: a line each.
type patient struct {
	log *lineLog
	to  io.Writer
}

func (p patient) Write(text []byte) (int, error) {
	p.log.put(line{p.to, append([]byte(nil), text...)})
	return len(text), nil
}
