package launcher

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// lines is a file that several streams write whole lines to: a console, or a
// filtered log.
type lines struct {
	mu     sync.Mutex
	file   *os.File
	owner  *pump // whose unfinished line stands at the end, nil for none
	buffer []byte
	broken bool // nobody reads it any more
}

// pumpBuffer bounds the memory of a teed stream, and the length of a line that the
// console shows in one piece. 256 workers have 512 of them.
const pumpBuffer = 16 << 10

// pump copies a worker's stream to its log file, byte for byte, and its lines to
// the console with a prefix. It is the only writer of the file, and ends at the end
// of the pipe, so no last line is lost.
type pump struct {
	reader     *os.File
	file       *os.File // nil without a log tree
	console    *lines   // nil where the rank is filtered out
	duplicates *lines   // nil without filters
	filters    []string
	prefix     string
	err        error

	closing atomic.Int64 // how long the pipe may stay quiet, 0: for ever
	midLine bool         // the console has the beginning of the line
}

// last bounds the wait for more: the writers are dead.
func (p *pump) last(quiet time.Duration) {
	p.closing.Store(int64(quiet))
	_ = p.reader.SetReadDeadline(time.Now().Add(quiet))
}

// capacity is the most that the dead have left in the pipe. What comes after it is of
// a writer that is out of reach.
func (p *pump) capacity() int {
	size := 1 << 20 // the most that a user may ask for (pipe(7))
	if c, err := p.reader.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0); err == nil {
				size = n
			}
		})
	}
	return size
}

func (p *pump) run() {
	buf := make([]byte, pumpBuffer)
	kept := 0  // bytes of an unfinished line at the front of buf
	late := -1 // bytes that may still come, once the writers are dead
	for {
		n, err := p.reader.Read(buf[kept:])
		p.keep(buf[kept : kept+n])
		kept = p.show(buf, kept+n)
		if err == nil && late >= 0 {
			if late -= n; late < 0 {
				err = io.EOF
			}
		}
		if err != nil {
			p.finish(buf[:kept], err)
			return
		}
		if quiet := p.closing.Load(); quiet > 0 {
			if late < 0 {
				late = p.capacity()
			}
			_ = p.reader.SetReadDeadline(time.Now().Add(time.Duration(quiet)))
		}
	}
}

// keep writes to the log file. A full disk ends the file, not the worker.
func (p *pump) keep(b []byte) {
	if p.file == nil || p.err != nil || len(b) == 0 {
		return
	}
	if _, err := p.file.Write(b); err != nil {
		p.err = nd.Errorf(nd.ErrIO, "log file: %w", err)
	}
}

// show passes whole lines on and moves the rest to the front. A line that fills the
// buffer is passed on in parts.
func (p *pump) show(buf []byte, n int) (kept int) {
	end := bytes.LastIndexByte(buf[:n], '\n') + 1
	if end == 0 && n == len(buf) {
		end = n
	}
	if end > 0 {
		p.pass(buf[:end])
	}
	return copy(buf, buf[end:n])
}

func (p *pump) pass(b []byte) {
	continued := p.midLine
	if p.duplicates != nil {
		p.duplicates.write(p, continued, p.matching(b))
	}
	if p.console != nil {
		p.console.write(p, continued, b)
	}
	p.midLine = b[len(b)-1] != '\n'
}

// matching keeps the lines that hold one of the filters' texts.
func (p *pump) matching(b []byte) []byte {
	var out []byte
	for line := range bytes.Lines(b) {
		for _, text := range p.filters {
			if bytes.Contains(line, []byte(text)) {
				out = append(out, line...)
				break
			}
		}
	}
	return out
}

func (p *pump) finish(rest []byte, err error) {
	if len(rest) > 0 {
		p.pass(rest)
	}
	if p.midLine {
		for _, l := range []*lines{p.console, p.duplicates} {
			if l != nil {
				l.endLine(p)
			}
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && p.err == nil {
		p.err = nd.Errorf(nd.ErrIO, "read a worker's output: %w", err)
	}
	if p.file != nil {
		p.err = errors.Join(p.err, p.file.Close())
	}
	_ = p.reader.Close()
}

// write adds lines, each with the pump's prefix. Where another stream's unfinished
// line is at the end, that one ends first.
func (l *lines) write(p *pump, continued bool, b []byte) {
	if len(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.buffer[:0]
	if l.owner != nil && l.owner != p {
		out = append(out, '\n')
	}
	first := continued && l.owner == p
	for line := range bytes.Lines(b) {
		if !first {
			out = append(out, p.prefix...)
		}
		first = false
		out = append(out, line...)
	}
	l.owner = nil
	if out[len(out)-1] != '\n' {
		l.owner = p
	}
	l.flush(out)
}

// endLine finishes the line that p left unfinished.
func (l *lines) endLine(p *pump) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == p {
		l.owner = nil
		l.flush([]byte{'\n'})
	}
}

func (l *lines) flush(b []byte) {
	l.buffer = b[:0]
	if l.broken {
		return
	}
	if _, err := l.file.Write(b); err != nil {
		l.broken = isBroken(err)
	}
}
