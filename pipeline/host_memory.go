package pipeline

import (
	"errors"
	"math"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

const (
	// hostWave is the decoded size of a wave on the host: a few milliseconds of
	// work for two cores, so that the first batch is early and a wave's bookkeeping
	// is small beside it.
	hostWave = 8 * mib
	// hostWaves are in flight: one being decoded, one read, two in line for when a
	// read takes longer than a decode.
	hostWaves = 4
	// slabBytes is the ring's size where chunks are small: the waves in flight and
	// room for chunks that do not compress.
	slabBytes = 64 * mib
	// decodedBytes is the decoded cache where HostBytes is not given.
	decodedBytes = 256 * mib
	// maxWaveChunks bounds a wave of tiny chunks, so that its bookkeeping stays in
	// the cache of a core.
	maxWaveChunks = 4096
	// codecScratch is what a decoder keeps for itself, a zstd window aside.
	codecScratch = 1 * mib
)

// divide shares HostBytes out: first what the work cannot do without, then the
// decoded cache with what is left.
func (h *host) divide() error {
	p := h.p
	c, l := &p.cfg, &p.limits
	l.chunk = p.largestChunk()
	// A codec chain of several stages needs a second buffer of a chunk's size.
	l.scratch = int64(c.Workers)*(2*l.chunk+codecScratch) + c.blocks()
	l.slabs = ringBytes(l.chunk)
	l.index = indexBytes
	p.capacity = capacity{waves: hostWaves, decoded: hostWave, cached: 1, encoded: math.MaxInt64, unpacked: math.MaxInt64, chunks: maxWaveChunks, batches: math.MaxInt}
	slots := int64(c.Slots) * l.slot
	if c.HostBytes == 0 {
		l.decoded = c.DecodedBytes
		if l.decoded == 0 {
			l.decoded = decodedBytes
		}
	} else if err := h.fit(slots); err != nil {
		return err
	}
	if c.Reuse == ReuseNone {
		l.decoded = 0
	}
	l.waveSlab = l.slabs / (hostWaves + 1)
	p.counts.hostBytes.Store(slots + l.scratch + l.slabs + l.index + l.decoded)
	return nil
}

// blocks is the memory through which the readers read past the page cache.
func (c *Config) blocks() int64 {
	if a, _ := c.access(); a == store.Buffered {
		return 0
	}
	return int64(c.Readers) * store.BlockBytes
}

// fit shrinks the ring, and gives the cache what HostBytes leaves.
func (h *host) fit(slots int64) error {
	c, l := &h.p.cfg, &h.p.limits
	least := max(2*l.chunk, maxRead)
	l.slabs = max(least, min(l.slabs, c.HostBytes/8))
	l.index = min(l.index, max(mib, c.HostBytes/32))
	need := slots + l.scratch + l.slabs + l.index
	if need+c.DecodedBytes > c.HostBytes {
		return nd.Errorf(nd.ErrBudget, "HostBytes %d is too little: %d slots of %d bytes, scratch for %d workers %d, ring %d, indexes %d and DecodedBytes %d need %d; raise it, or lower Slots, BatchSize or Workers",
			c.HostBytes, c.Slots, l.slot, c.Workers, l.scratch, l.slabs, l.index, c.DecodedBytes, need+c.DecodedBytes)
	}
	l.decoded = c.DecodedBytes
	if l.decoded == 0 {
		l.decoded = c.HostBytes - need
	}
	return nil
}

// take takes everything at once; free gives it back.
func (h *host) take() (err error) {
	p := h.p
	memory := p.cfg.BatchMemory
	if memory == nil {
		memory = anonymous{}
	}
	if p.slots, err = newSlots(hostSlots{memory}, p.cfg.Slots, p.limits.slot); err != nil {
		return err
	}
	if p.slabs, err = allocate(p.limits.slabs); err != nil {
		return err
	}
	h.decoded, err = allocate(p.limits.decoded)
	return err
}

func (h *host) free() error {
	var errs []error
	if h.p.slots != nil {
		errs = append(errs, h.p.slots.close())
	}
	errs = append(errs, free(h.p.slabs), free(h.decoded))
	h.p.slabs, h.decoded = nil, nil
	return errors.Join(errs...)
}

// Batches on the host: what place asks for.

func (h *host) ordinal() (int, bool)                 { return 0, false }
func (h *host) mark(uintptr) (Event, error)          { return nil, nil }
func (h *host) drain() error                         { return nil }
func (h *host) export(*slot) (Exported, bool, error) { return Exported{}, false, nil }

func (h *host) copyOut(dst []byte, s *slot, offset int) error {
	copy(dst, s.mem[offset:])
	return nil
}

func (h *host) mappings(func(*mapping)) *mappings { return nil }
