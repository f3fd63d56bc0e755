package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/nd"
)

// Commands is a reusable list of work for one Device.Run. It is packed as it is
// filled, and allocates nothing once it has been as long before. One goroutine
// uses it at a time. A mistake in a call is kept and comes out of Run.
type Commands struct {
	words    []uint64   // see driver.h
	uses     []*object  // what the commands refer to, each once
	launched []Function // in order, for messages
	err      error      // the first mistake
}

// Piece is one part of a batched copy.
type Piece struct {
	Dst, Src Ptr
	N        uint64 // bytes
}

// maxParams is what the driver takes as parameters of a kernel on any device.
const maxParams = 4096

// Reset empties the list and keeps its memory.
func (c *Commands) Reset() {
	clear(c.uses)
	clear(c.launched)
	c.words, c.uses, c.launched, c.err = c.words[:0], c.uses[:0], c.launched[:0], nil
}

// Copy copies n bytes between device memory and pinned or registered host memory,
// in any direction.
func (c *Commands) Copy(s *Stream, dst, src Ptr, n int64) {
	if n < 0 {
		c.mistake("a copy of %d bytes", n)
	}
	if n > 0 {
		c.add(cmdCopy, s.object, uint64(dst), uint64(src), uint64(n))
	}
}

// CopyBatch copies many pieces, in no order among themselves: no piece may write
// what another one touches. It costs one call of the driver for 512 pieces where
// Info.BatchCopy says so, else one for each. Pieces of no bytes are left out.
func (c *Commands) CopyBatch(s *Stream, list []Piece) {
	count := 0
	for _, p := range list {
		if p.N > 0 {
			count++
		}
	}
	if count == 0 {
		return
	}
	c.begin(cmdCopyBatch, 2+3*count, s.object)
	c.words = append(c.words, uint64(count))
	for _, p := range list {
		if p.N > 0 {
			c.words = append(c.words, uint64(p.Dst))
		}
	}
	for _, p := range list {
		if p.N > 0 {
			c.words = append(c.words, uint64(p.Src))
		}
	}
	for _, p := range list {
		if p.N > 0 {
			c.words = append(c.words, p.N)
		}
	}
}

// Set fills n bytes of device memory.
func (c *Commands) Set(s *Stream, dst Ptr, value byte, n int64) {
	if n < 0 {
		c.mistake("a fill of %d bytes", n)
	}
	if n > 0 {
		c.add(cmdSet, s.object, uint64(dst), uint64(value), uint64(n))
	}
}

// Launch starts a kernel on grid blocks of block threads with so many bytes of
// dynamic shared memory. params is the kernel's parameter block as it lies in
// memory: each parameter at its natural alignment. A grid of 0 is left out.
func (c *Commands) Launch(s *Stream, f Function, grid, block, shared int, params []byte) {
	if f.module == nil {
		c.mistake("a launch of no kernel")
		return
	}
	if grid < 0 || grid > math.MaxInt32 || block < 1 || shared < 0 || len(params) > maxParams {
		c.mistake("a launch of %s with grid %d, block %d, shared memory %d, %d bytes of parameters", f.name, grid, block, shared, len(params))
		return
	}
	if grid == 0 {
		return
	}
	size := (len(params) + 7) / 8
	c.begin(cmdLaunch, 6+size, s.object)
	c.use(f.module.object)
	c.launched = append(c.launched, f)
	c.words = append(c.words, f.handle, uint64(grid), uint64(block), uint64(shared), uint64(len(params)))
	c.pack(params)
}

// Record puts the event at the end of the stream's work so far.
func (c *Commands) Record(s *Stream, e *Event) {
	c.add(cmdRecord, s.object, e.handle)
	c.use(e.object)
}

// Await makes what follows on the stream wait, on the device, for the event's
// latest record, in this list or before it.
func (c *Commands) Await(s *Stream, e *Event) {
	c.add(cmdAwait, s.object, e.handle)
	c.use(e.object)
}

func (c *Commands) mistake(format string, args ...any) {
	if c.err == nil {
		c.err = nd.Errorf(nd.ErrBug, format, args...)
	}
}

// add appends a command with its arguments.
func (c *Commands) add(command uint64, s *object, args ...uint64) {
	c.begin(command, 1+len(args), s)
	c.words = append(c.words, args...)
}

// begin appends the head of a command: n words follow it, the stream first.
func (c *Commands) begin(command uint64, n int, s *object) {
	c.use(s)
	c.words = append(c.words, command|uint64(n+1)<<32, s.handle)
}

// pack appends bytes as they lie in memory, filled up to whole words.
func (c *Commands) pack(bytes []byte) {
	for len(bytes) >= 8 {
		c.words = append(c.words, binary.NativeEndian.Uint64(bytes))
		bytes = bytes[8:]
	}
	if len(bytes) > 0 {
		var rest [8]byte
		copy(rest[:], bytes)
		c.words = append(c.words, binary.NativeEndian.Uint64(rest[:]))
	}
}

// use notes an object; a list refers to a few of them, so a scan finds it again.
func (c *Commands) use(o *object) {
	if !slices.Contains(c.uses, o) {
		c.uses = append(c.uses, o)
	}
}

// Run enqueues the list in one call and does not wait for it; the list may be
// changed or reset at once. After an error, which names the command that failed,
// the commands before that one are on their streams.
func (d *Device) Run(c *Commands) error {
	if c.err != nil {
		return c.err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.life.leave()
	entered, err := d.enterAll(c.uses)
	defer leaveAll(entered)
	if err != nil || len(c.words) == 0 {
		return err
	}
	var at [2]uint64
	if code := d.driver.lib.run(d.context, c.words, &at); code != codeSuccess {
		return d.fail(code, c.describe(at[0], at[1]))
	}
	return nil
}

// enterAll begins a call on each object; those it gives back must be left.
func (d *Device) enterAll(list []*object) ([]*object, error) {
	for i, o := range list {
		if o.device != d {
			return list[:i], nd.Errorf(nd.ErrBug, "a %s of another GPU among the commands for GPU %d", o.kind, d.info.Ordinal)
		}
		if err := o.enter(); err != nil {
			return list[:i], err
		}
	}
	return list, nil
}

func leaveAll(list []*object) {
	for _, o := range list {
		o.leave()
	}
}

// describe names the command with an index, and the piece of a batch.
func (c *Commands) describe(index, piece uint64) string {
	launches := 0
	for i, n := uint64(0), uint64(0); i < uint64(len(c.words)); n++ {
		head, w := c.words[i], c.words[i+1:]
		if n == index {
			return fmt.Sprintf("command %d, %s", index, c.commandText(head&math.MaxUint32, w, launches, piece))
		}
		if head&math.MaxUint32 == cmdLaunch {
			launches++
		}
		i += head >> 32
	}
	return "running commands"
}

func (c *Commands) commandText(command uint64, w []uint64, launches int, piece uint64) string {
	switch command {
	case cmdCopy:
		return fmt.Sprintf("a copy of %d bytes from %#x to %#x", w[3], w[2], w[1])
	case cmdCopyBatch:
		n := w[1]
		if piece >= n {
			return fmt.Sprintf("a copy of %d pieces", n)
		}
		w = w[2:]
		return fmt.Sprintf("a copy of %d pieces, piece %d, %d bytes from %#x to %#x", n, piece, w[2*n+piece], w[n+piece], w[piece])
	case cmdSet:
		return fmt.Sprintf("a fill of %d bytes at %#x", w[3], w[1])
	case cmdLaunch:
		return fmt.Sprintf("a launch of %s on %d blocks of %d threads", c.launched[launches].name, w[2], w[3])
	case cmdRecord:
		return "the record of an event"
	default:
		return "the wait for an event"
	}
}
