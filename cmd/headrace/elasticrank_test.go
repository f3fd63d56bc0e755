package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord/fence"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// asRank makes the test binary be a rank of an async job: its value says of which.
const asRank = "HEADRACE_TEST_RANK"

// walk is what a rank of the rounds does.
type walk struct {
	N, Epochs int64
	Pace      time.Duration // of a position
	Local     int
	Socket    string
	Journal   string // file of what it has done, its own account
	Lie       string // "digest": commits another digest than it should; "skip": does not do what it commits
}

// String and parseWalk are the value of asRank.
func (w walk) String() string {
	return fmt.Sprintf("%d %d %d %d %s %s %q", w.N, w.Epochs, w.Pace, w.Local, w.Socket, w.Journal, w.Lie)
}

func parseWalk(text string) (w walk, err error) {
	_, err = fmt.Sscanf(text, "%d %d %d %d %s %s %q", &w.N, &w.Epochs, &w.Pace, &w.Local, &w.Socket, &w.Journal, &w.Lie)
	return w, err
}

// weight is what a position adds to the digest of its epoch: any function that tells
// positions apart does.
func weight(epoch, position int64) (d [2]uint64) {
	r := rand.NewPCG(uint64(epoch), uint64(position))
	return [2]uint64{r.Uint64(), r.Uint64()}
}

// Codes of exit of a rank: the job is over; it has to be started again.
const (
	rankOver = 0
	rankLost = 3
)

// rankProgram is the process of a rank: it walks through its lanes until the job is over,
// and keeps a journal.
func rankProgram(text string) int {
	w, err := parseWalk(text)
	if err == nil {
		err = w.walk(context.Background())
	}
	if errors.Is(err, io.EOF) {
		return rankOver
	}
	_, _ = fmt.Fprintln(os.Stderr, "rank:", err)
	return rankLost
}

func (w *walk) walk(ctx context.Context) error {
	journal, err := os.OpenFile(w.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close() //nolint:errcheck // each line is written at once
	id := rank.Identity{Agent: w.Socket, RunID: "elastic", Rank: 0, World: 1, LocalRank: w.Local}
	f, err := fence.Dial(ctx, id, agentapi.Attach{Plan: "rounds", Mode: "async", N: w.N, Steps: 1, Epochs: w.Epochs, Ahead: 64})
	if err != nil {
		return err
	}
	defer f.Close()
	closed := int64(-1)
	note := func() {
		for _, d := range f.Settled() {
			what := "effective"
			if !d.Effective {
				what = "void"
			}
			_, _ = fmt.Fprintln(journal, what, d.Epoch, d.Span.Start, d.Span.Stop)
		}
		if c, ok := f.Closed(); ok && c.Epoch != closed {
			closed = c.Epoch
			_, _ = fmt.Fprintln(journal, "closed", c.Epoch, c.Count, c.Digest)
		}
	}
	defer note()
	for {
		epoch, x, err := f.Take(ctx, 1+rand.Int64N(5))
		if err != nil {
			return err
		}
		w.work(journal, epoch, x)
		kept, err := f.Finish(epoch, x, w.digest(epoch, x))
		if err != nil {
			return err
		}
		if !kept {
			_, _ = fmt.Fprintln(journal, "void", epoch, x.Start, x.Stop)
		}
		note()
	}
}

// work does what there is to do for positions, and writes that it is done.
func (w *walk) work(journal io.Writer, epoch int64, x nd.Span) {
	if w.Lie == "skip" && x.Start%7 == 0 {
		return
	}
	time.Sleep(w.Pace * time.Duration(x.Stop-x.Start))
	_, _ = fmt.Fprintln(journal, "done", epoch, x.Start, x.Stop)
}

func (w *walk) digest(epoch int64, x nd.Span) (sum [2]uint64) {
	for p := x.Start; p < x.Stop; p++ {
		d := weight(epoch, p)
		sum[0] += d[0]
		sum[1] += d[1]
	}
	if w.Lie == "digest" {
		sum[1]++
	}
	return sum
}

// entry is a line of a journal.
type entry struct {
	what        string
	epoch, a, b int64 // positions; of closed: epoch and count
	digest      string
}

func parseEntry(line string) (e entry, err error) {
	f := strings.Fields(line)
	if len(f) != 4 {
		return e, nd.Errorf(nd.ErrCorrupt, "journal: line %q", line)
	}
	e.what = f[0]
	for i, to := range []*int64{&e.epoch, &e.a} {
		if *to, err = strconv.ParseInt(f[1+i], 10, 64); err != nil {
			return e, err
		}
	}
	if e.what == "closed" {
		e.digest = f[3]
		return e, nil
	}
	e.b, err = strconv.ParseInt(f[3], 10, 64)
	return e, err
}
