package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far long work is, on a terminal only: a log gets no bars.
type progress struct {
	out   io.Writer // nil where there is no terminal
	bar   *progressbar.ProgressBar
	phase string
}

func (a *app) progress() *progress {
	if f, ok := a.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{out: f}
	}
	return &progress{}
}

// unit is what a phase counts.
type unit bool

const (
	inBytes unit = true
	inItems unit = false
)

// show moves the bar of a phase; another phase ends the bar before it. A total of
// 0 is not known: the bar spins.
func (p *progress) show(phase string, count unit, done, total int64) {
	if p.out == nil {
		return
	}
	if p.bar == nil || p.phase != phase {
		p.end()
		p.phase = phase
		p.bar = p.start(phase, count, total)
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn must not end the work
}

func (p *progress) start(phase string, count unit, total int64) *progressbar.ProgressBar {
	if total == 0 {
		total = -1
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetDescription(phase),
		progressbar.OptionShowBytes(bool(count)),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(40),
		// Without it a bar of unknown length would draw itself from a goroutine that
		// outlives it.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
