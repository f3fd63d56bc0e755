package pipeline

import (
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

const (
	// deviceWave is the decoded size of a wave where memory allows: decoders need
	// thousands of chunks at once to fill a GPU, and copies of this size run at the
	// link's rate.
	deviceWave = 512 * mib
	// deviceWaves are in flight: one read or unpacked by the host, one copied, one
	// decoded and assembled.
	deviceWaves = 3
	// deviceShare is the part of the free memory of a GPU that is taken where the
	// config does not say how much, and deviceMost its limit: a trainer needs the
	// rest.
	deviceShare = 4
	deviceMost  = 8 << 30
	// placing is how much faster chunks are placed than decoded, or better: a wave
	// of chunks that are kept must not be so large that it is late.
	placing = 4
	// frameWave is deviceWave where a library decodes frames: its calls take as long
	// for half as many.
	frameWave = 1 << 30
	// unpackWave is what the host decodes of a wave: some milliseconds of work for
	// a few cores.
	unpackWave = 64 * mib
	// ringMost bounds the pinned ring where the config does not.
	ringMost = 1 << 30
)

// divide shares DeviceBytes and HostBytes out: first the slots and the cache of stored
// bytes, then the stages of the waves in flight, then the decoded cache with what is
// left.
func (d *device) divide() error {
	c, l := &d.p.cfg, &d.p.limits
	l.chunk = d.p.largestChunk()
	l.index = indexBytes
	l.compressed = align(c.CompressedBytes)
	budget, err := d.budget()
	if err != nil {
		return err
	}
	slots := int64(c.Slots) * deviceAlign(l.slot)
	rest := budget - slots - l.compressed - align(c.DecodedBytes) - deviceAlign(1)
	wave, err := d.fitWave(rest, c.DecodedBytes == 0 && c.Reuse != ReuseNone)
	if err != nil {
		return err
	}
	stages, err := d.stageBytes(wave)
	if err != nil {
		return err
	}
	if stages > rest {
		return nd.Errorf(nd.ErrBudget, "DeviceBytes %d is too little: %d slots of %d bytes, the least for %d waves of chunks of %d, %d, CompressedBytes %d and DecodedBytes %d need %d; raise it, or lower Slots, BatchSize, CompressedBytes or DecodedBytes",
			budget, c.Slots, l.slot, deviceWaves, l.chunk, stages, c.CompressedBytes, c.DecodedBytes, budget-rest+stages)
	}
	switch {
	case c.Reuse == ReuseNone:
		l.decoded = 0
	case c.DecodedBytes > 0:
		l.decoded = align(c.DecodedBytes)
	default:
		l.decoded = (rest - stages) &^ (arenaGrain - 1)
	}
	d.p.capacity = capacity{
		waves: deviceWaves, decoded: wave, cached: placing, stored: d.encoded(), unpacked: min(wave, unpackWave),
		chunks: waveChunks(wave) - 1, batches: waveBatches(c.Slots), decoders: d.decoders,
	}
	d.p.counts.deviceBytes.Store(slots + deviceAlign(l.decoded+l.compressed+stages))
	return nil
}

// waveChunks is the most chunks of a wave: as many as a stage's lists hold, in a wave of
// the usual size chunks of 32 KiB. Less memory is for fewer of them, since each takes some.
func waveChunks(wave int64) int { return int(min(deviceChunks, max(1024, wave/(8<<10)))) }

// waveBatches is how many batches a wave may write into: of the slots one is held by the
// consumer, and of the others two waves want some, one that is copied and decoded and
// one that is formed behind it.
func waveBatches(slots int) int { return max(1, (slots-1)/2) }

// deviceAlign rounds up to the pages that a driver hands out.
func deviceAlign(n int64) int64 { return (n + 2*mib - 1) &^ (2*mib - 1) }

// budget is the device memory that may be taken.
func (d *device) budget() (int64, error) {
	free, total, err := d.gpu.MemInfo()
	if err != nil {
		return 0, err
	}
	budget := d.p.cfg.DeviceBytes
	if budget == 0 {
		return defaultBudget(free, d.p.cfg.Sharing), nil
	}
	if budget > free {
		return 0, nd.Errorf(nd.ErrBudget, "DeviceBytes is %d, but %d of the %d bytes of the GPU are free: lower it, or end what uses the GPU", budget, free, total)
	}
	return budget, nil
}

func defaultBudget(free int64, sharing int) int64 {
	return min(free/deviceShare, deviceMost) / int64(max(1, sharing))
}

// fitWave finds the largest wave whose stages fit rest, or half of it where a cache
// shares it, and divides the host's memory for it. A chunk is the least.
func (d *device) fitWave(rest int64, cache bool) (wave int64, err error) {
	if cache {
		rest /= 2
	}
	chunk := d.p.limits.chunk
	wave = deviceWave
	if d.frames != nil {
		wave = frameWave
	}
	smallest, largest := d.p.frameSizes()
	for ; ; wave = wave * 15 / 16 {
		wave = max(wave, chunk)
		err := d.divideHost(wave)
		if err == nil && d.frames != nil {
			err = d.frames.plan(wave, smallest, largest)
		}
		stages := int64(0)
		if err == nil {
			stages, err = d.stageBytes(wave)
		}
		if wave == chunk || err == nil && stages <= rest {
			return wave, err
		}
	}
}

// stageBytes is what waves of a size take of the device: the stages, the settler's,
// and the library's scratch.
func (d *device) stageBytes(wave int64) (int64, error) {
	r, err := d.room(wave)
	n := deviceWaves*r.bytes() + room{}.bytes()
	if d.frames != nil {
		n += d.frames.bytes
	}
	return n, err
}

// room is what a stage needs for waves of a size and one chunk that is too much.
func (d *device) room(wave int64) (r room, err error) {
	r = room{chunks: waveChunks(wave), encoded: d.encoded(), decoded: wave + d.p.limits.chunk}
	if d.decoders.scratch {
		r.scratch = r.out()
	}
	if d.zstd != nil {
		r.work, err = d.zstdLimits(r).Scratch()
	}
	return r, err
}

// encoded is the room of a stage for stored bytes: those of a wave, and the holes
// that are read along.
func (d *device) encoded() int64 {
	return max(d.p.limits.waveSlab*5/4, 2*d.p.limits.chunk) + maxRead + 2*maxGap
}

// divideHost shares HostBytes out: what the workers need, the pinned memory of the
// stages, and the ring with the rest.
func (d *device) divideHost(wave int64) error {
	c, l := &d.p.cfg, &d.p.limits
	l.scratch = int64(c.Workers)*(l.chunk+codecScratch) + c.blocks()
	fixed := l.scratch + l.index + deviceWaves*(d.unpackedBytes(wave)+listBytes) + listBytes + fetchBytes
	least := 2*l.chunk + maxRead
	l.slabs = max(least, min(ringMost, (deviceWaves+1)*wave))
	if c.HostBytes > 0 {
		l.slabs = min(max(least, (deviceWaves+1)*wave), c.HostBytes-fixed)
		if l.slabs < least {
			return nd.Errorf(nd.ErrBudget, "HostBytes %d is too little: scratch for %d workers %d, indexes %d, pinned buffers of %d waves and the least ring of %d need %d; raise it, or lower Workers",
				c.HostBytes, c.Workers, l.scratch, l.index, deviceWaves, least, fixed+least)
		}
	}
	l.waveSlab = l.slabs / (deviceWaves + 1)
	d.p.counts.hostBytes.Store(fixed + l.slabs)
	return nil
}

// unpackedBytes is the room of a stage for chunks that the host decodes: those of a
// wave, and one that is too much.
func (d *device) unpackedBytes(wave int64) int64 {
	return align(min(wave, unpackWave)) + align(d.p.limits.chunk) + int64(waveChunks(wave))*arenaGrain
}

// take takes everything at once.
func (d *device) take() (err error) {
	p, l := d.p, &d.p.limits
	if p.slots, err = newSlots(deviceSlots{d}, p.cfg.Slots, l.slot); err != nil {
		return err
	}
	if d.ring, err = d.pin(l.slabs); err != nil {
		return err
	}
	p.slabs = d.ring.mem
	if d.bounce, err = d.gpu.AllocHost(fetchBytes); err != nil {
		return err
	}
	wave := p.capacity.decoded
	each, err := d.room(wave)
	if err != nil {
		return err
	}
	stages, err := d.stageBytes(wave)
	if err != nil {
		return err
	}
	if d.memory, err = d.gpu.Alloc(l.decoded + l.compressed + stages); err != nil {
		return err
	}
	d.decoded = d.memory
	d.compressed = d.memory + cuda.Ptr(l.decoded)
	at := d.compressed + cuda.Ptr(l.compressed)
	if d.frames != nil {
		d.frames.scratch = at
		at += cuda.Ptr(d.frames.bytes)
	}
	if d.mender, err = d.newStage(at, room{}, 0); err != nil {
		return err
	}
	d.mender.copies = d.mender.compute // not behind the waves that were issued meanwhile
	at += cuda.Ptr(d.mender.room.bytes())
	for range deviceWaves {
		s, err := d.newStage(at, each, d.unpackedBytes(wave))
		if err != nil {
			return err
		}
		d.stages = append(d.stages, s)
		at += cuda.Ptr(each.bytes())
	}
	d.idle = append(d.idle, d.stages...)
	if d.clock.latest, err = d.gpu.NewTimedEvent(); err != nil {
		return err
	}
	for _, s := range append(d.stages, d.mender) {
		s.tiles.flush = func() error { return s.flush(d) }
	}
	return nil
}

// deviceSlots lie on a GPU, each in an allocation of its own, so that it can be
// exported to another process. The last one to go closes the device.
type deviceSlots struct{ d *device }

func (g deviceSlots) alloc(n int64) (*slot, error) {
	addr, err := g.d.gpu.Alloc(deviceAlign(max(n, 1)))
	return &slot{addr: addr, bytes: align(n)}, err
}

func (g deviceSlots) free(s *slot) error { return g.d.gpu.Free(s.addr) }

func (g deviceSlots) recall(list []*slot) {
	m, ok := g.d.p.cfg.BatchMemory.(DeviceMemory)
	if !ok || len(list) == 0 {
		return
	}
	allocations := make([]any, len(list))
	for i, s := range list {
		allocations[i] = s
	}
	m.Recall(allocations)
}

func (g deviceSlots) done() error { return g.d.freeLast() }
