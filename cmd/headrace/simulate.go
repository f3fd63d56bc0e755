package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/coord/sim"
	"github.com/headrace/headrace/nd"
)

// simulateFlags say which scenarios are run, and what is shown of them.
type simulateFlags struct {
	options  sim.Options
	seeds    string
	faults   string
	mode     string
	profile  string
	jobs     int
	shrink   int
	out      string
	replay   string
	trace    bool
	svg      string
	from, to uint64
}

func (a *app) simulate() *cobra.Command {
	f := &simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run jobs whose nodes and ranks come and go, in simulated time",
		Long: `simulate runs the coordinator's agents over a simulated network, gossip and
trainers: nodes are killed, stopped, cut off and come again and their clocks jump
ahead, as the seed has it, and monitors watch that the job keeps its promises. One
seed has one history.

A seed that breaks one is shrunk and written to a file, which --replay runs again;
--trace tells what happens, --svg draws it. The exit code is 1 then.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := onlyPositive(cmd, "nodes", "ranks", "jobs"); err != nil {
				return err
			}
			return a.runSimulate(cmd.Context(), f)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.options.Nodes, "nodes", 0, "nodes at the begin (default 3 to 9, as the seed has it)")
	flags.IntVar(&f.options.Ranks, "ranks", 0, "ranks of a node (default 0 to 3, as the seed has it)")
	flags.StringVar(&f.seeds, "seeds", "0:100", "seeds A up to and without B, or one")
	flags.StringVar(&f.faults, "faults", "all", "all, none, or a list of: "+kinds())
	flags.StringVar(&f.mode, "mode", "mixed", "of the job: lockstep, async, or mixed, as the seed has it")
	flags.StringVar(&f.profile, "profile", "default", "of the agents: default or fast")
	flags.DurationVar(&f.options.Duration, "duration", 30*time.Second, "simulated time in which faults come")
	flags.IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "seeds that are run at once")
	flags.IntVar(&f.shrink, "shrink", 200, "runs to make the first failing seed smaller; 0: none")
	flags.StringVar(&f.out, "out", ".", "folder for the scenarios of failing seeds")
	flags.StringVar(&f.replay, "replay", "", "run the scenario of a file")
	flags.BoolVar(&f.trace, "trace", false, "tell what happens, with --replay or one seed")
	flags.StringVar(&f.svg, "svg", "", "file to draw the timeline into, with --replay or one seed")
	choices(cmd, "mode", "mixed", "lockstep", "async")
	choices(cmd, "profile", "default", "fast")
	choices(cmd, "faults", append([]string{"all", "none"}, strings.Split(kinds(), ",")...)...)
}

func kinds() string {
	var names []string
	for _, k := range sim.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ",")
}

// read checks the flags.
func (f *simulateFlags) read() (err error) {
	if f.options.Mode, err = sim.ParseMode(f.mode); err != nil {
		return usageError{err}
	}
	if f.options.Profile, err = sim.ParseProfile(f.profile); err != nil {
		return usageError{err}
	}
	if f.options.Faults, err = sim.ParseFaults(f.faults); err != nil {
		return usageError{err}
	}
	first, last, both := strings.Cut(f.seeds, ":")
	if f.from, err = strconv.ParseUint(first, 10, 64); err == nil {
		f.to = f.from + 1
		if both {
			f.to, err = strconv.ParseUint(last, 10, 64)
		}
	}
	switch {
	case err != nil || f.to <= f.from:
		return usagef("--seeds %q: A:B with A below B, or one number", f.seeds)
	case f.to-f.from > sim.MostSeeds:
		return usagef("--seeds %q: at most %d at a time", f.seeds, sim.MostSeeds)
	case f.options.Duration < time.Second || f.options.Duration > mostDuration || f.jobs > mostJobs || f.shrink < 0:
		return usagef("--duration is 1s to %v, --jobs at most %d, --shrink not below 0", mostDuration, mostJobs)
	case (f.trace || f.svg != "") && f.replay == "" && f.to != f.from+1:
		return usagef("--trace and --svg are of one run: with --replay FILE or --seeds N")
	case f.options.Nodes > sim.MostNodes || f.options.Ranks > sim.MostRanks:
		return usagef("--nodes is at most %d, --ranks at most %d", sim.MostNodes, sim.MostRanks)
	}
	if sc := sim.Draw(f.from, &f.options); f.replay == "" {
		return sc.Validate()
	}
	return nil
}

// Bounds of flags. A run of hours in simulated time is minutes of a core.
const (
	mostDuration = 24 * time.Hour
	mostJobs     = 1024
)

func (a *app) runSimulate(ctx context.Context, f *simulateFlags) error {
	if err := f.read(); err != nil {
		return err
	}
	begin := time.Now()
	var s *sim.Summary
	var err error
	if f.replay != "" || f.trace || f.svg != "" {
		s, err = a.simulateOne(ctx, f)
	} else {
		s, err = a.simulateMany(ctx, f)
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(s)
	} else {
		err = a.printTable(summaryRows(s, time.Since(begin)))
	}
	if n := len(s.Violations); n > 0 {
		return errors.Join(err, fmt.Errorf("%d of %d seeds broke an invariant", n, s.Seeds))
	}
	return errors.Join(err, ctx.Err())
}

// simulateOne runs one scenario, and shows it.
func (a *app) simulateOne(ctx context.Context, f *simulateFlags) (*sim.Summary, error) {
	sc := sim.Draw(f.from, &f.options)
	if f.replay != "" {
		file, err := os.Open(f.replay)
		if err != nil {
			return nil, nd.Errorf(nd.ErrIO, "%w", err)
		}
		defer file.Close() //nolint:errcheck // it was read only
		if sc, err = sim.Parse(file); err != nil {
			return nil, fmt.Errorf("%s: %w", f.replay, err)
		}
	}
	watch := sim.Watch{Done: ctx.Done()}
	if f.trace {
		watch.Trace = a.stdout
		if a.json {
			watch.Trace = a.stderr
		}
		_, _ = io.WriteString(watch.Trace, sc.String())
	}
	if f.svg != "" {
		watch.Picture = &sim.Picture{}
	}
	result := sim.Run(sc, watch)
	if result == nil {
		return nil, ctx.Err()
	}
	s := sim.Summarize([]*sim.Result{result})
	if f.svg == "" {
		return s, nil
	}
	var drawing bytes.Buffer
	if err := watch.Picture.WriteSVG(&drawing); err != nil {
		return nil, err
	}
	return s, os.WriteFile(f.svg, drawing.Bytes(), 0o644)
}

// simulateMany runs the seeds, and writes those down that fail: the first one shrunk.
func (a *app) simulateMany(ctx context.Context, f *simulateFlags) (*sim.Summary, error) {
	if err := os.MkdirAll(f.out, 0o755); err != nil { // not after an hour
		return nil, nd.Errorf(nd.ErrIO, "--out: %w", err)
	}
	bar := a.progress()
	done := int64(0)
	sweep := sim.Sweep{From: f.from, To: f.to, Options: f.options, Jobs: f.jobs, Done: func(*sim.Result) {
		done++
		bar.show("seeds", inItems, done, int64(f.to-f.from))
	}}
	s := sweep.Run(ctx)
	bar.end()
	for i := range s.Violations {
		v := &s.Violations[i]
		if i == mostFiles || ctx.Err() != nil {
			break
		}
		sc := sim.Draw(v.Seed, &f.options)
		if i == 0 && f.shrink > 0 {
			sc = a.shrink(ctx, sc, v.Invariant, f.shrink)
		}
		v.File = filepath.Join(f.out, fmt.Sprintf("seed-%d.scenario", v.Seed))
		text := fmt.Sprintf("# headrace simulate --replay %s --trace\n# %s at %.3f s: %s\n%s", v.File, v.Invariant, v.Time, v.Seen, sc.String())
		if err := os.WriteFile(v.File, []byte(text), 0o644); err != nil {
			return nil, nd.Errorf(nd.ErrIO, "the scenario of seed %d: %w", v.Seed, err)
		}
	}
	return s, nil
}

// shrink makes a failing scenario smaller.
func (a *app) shrink(ctx context.Context, sc sim.Scenario, invariant string, runs int) sim.Scenario {
	bar := a.progress()
	defer bar.end()
	breaks, run := sim.Breaks(invariant, ctx.Done()), int64(0)
	return sim.Shrink(sc, runs, func(sc *sim.Scenario) bool {
		run++
		bar.show("shrink", inItems, run, int64(runs))
		return breaks(sc)
	})
}

// mostFiles bounds the scenarios that are written.
const mostFiles = 10

func summaryRows(s *sim.Summary, wall time.Duration) []byte {
	var rows bytes.Buffer
	fmt.Fprintf(&rows, "seeds\t%d, %.0f s of simulated time in %.1f s\n", s.Seeds, s.Virtual, wall.Seconds())
	fmt.Fprintf(&rows, "faults\t%d\n", s.Faults)
	fmt.Fprintf(&rows, "views\t%d installed, at most %d in one run; %d elections\n", s.Views.Installed, s.Views.Most, s.Elections)
	if r := s.Recovery; r.Count > 0 {
		fmt.Fprintf(&rows, "recovery\t%d losses: p50 %.2f s, p99 %.2f s, max %.2f s until no view has them\n", r.Count, r.P50, r.P99, r.Max)
	}
	c := s.Coverage
	fmt.Fprintf(&rows, "coverage\t%d jobs complete, %d stopped without a majority, %d open; %d epochs closed, each whole\n", c.Over, c.Stopped, c.Open, c.Epochs)
	m := s.Messages
	fmt.Fprintf(&rows, "messages\t%d, %.1f MB, %d of them by what happened; %d for a change; %d broken\n", m.Sent, float64(m.Bytes)/1e6, m.Caused, m.PerChange, m.Corrupted)
	fmt.Fprintf(&rows, "digest\t%s\n", s.Digest)
	fmt.Fprintf(&rows, "violations\t%d\n", len(s.Violations))
	for _, v := range s.Violations {
		fmt.Fprintf(&rows, "  seed %d\t%s at %.3f s: %s\n", v.Seed, v.Invariant, v.Time, v.Seen)
		if v.File != "" {
			fmt.Fprintf(&rows, "\theadrace simulate --replay %s --trace\n", v.File)
		}
	}
	return rows.Bytes()
}
