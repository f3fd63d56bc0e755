package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// outputs are the streams of one round's workers. A stream that is only shown is
// the launcher's own descriptor, one that is only kept is a file of the worker's:
// neither passes through the launcher. A teed one is a pipe.
type outputs struct {
	spec   *Spec
	dir    attemptDir
	prefix func(local int) string
	consoles,
	duplicates [2]*lines // stdout, stderr; nil without
	null    *os.File
	opened  []*os.File // to be closed once the workers have them
	writers []int
	pumps   []*pump
	running sync.WaitGroup
}

func newOutputs(s *Spec, dir attemptDir, consoles [2]*lines, prefix func(local int) string) (*outputs, error) {
	o := &outputs{spec: s, dir: dir, consoles: consoles, prefix: prefix}
	for i, filters := range [2][]string{s.StdoutDuplicates, s.StderrDuplicates} {
		if len(filters) == 0 || dir == "" {
			continue
		}
		f, err := create(filepath.Join(string(dir), "filtered_"+streamNames()[i]))
		if err != nil {
			return o, errors.Join(err, o.close())
		}
		o.duplicates[i] = &lines{file: f}
	}
	return o, nil
}

func streamNames() [2]string { return [2]string{"stdout.log", "stderr.log"} }

// descriptors opens both streams of a worker.
func (o *outputs) descriptors(local int) (out, err uintptr, failure error) {
	var fds [2]uintptr
	for i := range fds {
		if fds[i], failure = o.descriptor(local, i); failure != nil {
			return 0, 0, failure
		}
	}
	return fds[0], fds[1], nil
}

func (o *outputs) descriptor(local, stream int) (uintptr, error) {
	bit := Streams(1) << stream
	teed := o.spec.Tee.Of(local)&bit != 0
	shown := o.spec.LocalRanks == nil || slices.Contains(o.spec.LocalRanks, local)
	if !teed && o.spec.Redirects.Of(local)&bit == 0 || o.dir == "" && !teed {
		if !shown {
			return o.devNull()
		}
		return [2]*os.File{o.spec.Stdout, o.spec.Stderr}[stream].Fd(), nil
	}
	var file *os.File
	if o.dir != "" {
		var err error
		if file, err = create(o.dir.file(local, streamNames()[stream])); err != nil {
			return 0, err
		}
	}
	if !teed {
		o.opened = append(o.opened, file)
		return file.Fd(), nil
	}
	p := &pump{file: file, prefix: o.prefix(local), filters: [2][]string{o.spec.StdoutDuplicates, o.spec.StderrDuplicates}[stream]}
	if shown { // torch 2.15 leaves ranks that the filter hides out of the duplicates too
		p.console, p.duplicates = o.consoles[stream], o.duplicates[stream]
	}
	return o.pipe(p)
}

func (o *outputs) devNull() (uintptr, error) {
	if o.null == nil {
		f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return 0, nd.Errorf(nd.ErrIO, "%w", err)
		}
		o.null = f
		o.opened = append(o.opened, f)
	}
	return o.null.Fd(), nil
}

// pipe makes a pipe whose far end blocks, as workers expect, and whose near end
// does not.
func (o *outputs) pipe(p *pump) (uintptr, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return 0, nd.Errorf(nd.ErrIO, "pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return 0, nd.Errorf(nd.ErrIO, "pipe: %w", err)
	}
	p.reader = os.NewFile(uintptr(fds[0]), "pipe")
	o.pumps = append(o.pumps, p)
	o.writers = append(o.writers, fds[1])
	return uintptr(fds[1]), nil
}

// begin gives up the launcher's copies of what the workers have now, and starts to
// read the pipes.
func (o *outputs) begin() {
	for _, f := range o.opened {
		_ = f.Close()
	}
	for _, fd := range o.writers {
		_ = unix.Close(fd)
	}
	o.opened, o.writers, o.null = nil, nil, nil
	for _, p := range o.pumps {
		o.running.Go(p.run)
	}
}

// quiet is how long a pipe may stay empty after all its writers should be dead:
// one that a process outside of our reach holds must not hold us up.
const quiet = 500 * time.Millisecond

// drain reads the pipes to their ends and closes everything. In a hurry it gives up,
// after the bound, what a console that does not move keeps it from.
func (o *outputs) drain(hurry <-chan struct{}, bound time.Duration) error {
	for _, p := range o.pumps {
		p.last(quiet)
	}
	drained := make(chan struct{})
	go func() { o.running.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-hurry:
		select {
		case <-drained:
		case <-time.After(bound):
			return nd.Errorf(nd.ErrIO, "nobody reads the console: the last of the workers' output is lost")
		}
	}
	var errs []error
	for _, p := range o.pumps {
		errs = append(errs, p.err)
	}
	return errors.Join(append(errs, o.close())...)
}

func (o *outputs) close() error {
	var errs []error
	for _, l := range o.duplicates {
		if l != nil {
			errs = append(errs, l.file.Close())
		}
	}
	return errors.Join(errs...)
}

// prefixOf fills in the template of the console's line prefix. A space follows it
// nowhere: the template has it if it is wanted.
func (s *Spec) prefixOf(p place, host string) string {
	return strings.NewReplacer(
		"${role_name}", s.Role,
		"${local_rank}", strconv.Itoa(p.local),
		"${rank}", strconv.Itoa(p.rank()),
		"${hostname}", host,
		"${attempt}", strconv.Itoa(p.round.Restarts),
	).Replace(s.Prefix)
}

// isBroken tells a console that nobody reads any more.
func isBroken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrClosed)
}
