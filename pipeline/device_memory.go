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
	// deviceWaves have a stage: one is copied, two are decoded, and one is assembled,
	// settled or unpacked by the host.
	deviceWaves = 4
	// deviceAhead more are read, and take the next stage at once.
	deviceAhead = 1
	// deviceCalls of the waves decode zstd at the same time. That needs as much memory as
	// all the rest of a stage, and more of them are not faster.
	deviceCalls = 3
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
	wave, err := d.fitWave(rest - d.cacheShare(rest))
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
		waves: deviceWaves + deviceAhead, decoded: wave, cached: placing, encoded: storedWave(wave), stored: d.encoded(wave), unpacked: min(wave, unpackWave),
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

// cacheShare is what the decoded cache has of rest at least, where the config does not
// say: half of it, but no more than chunks that are shared within a batch alone need, for
// one batch and half of the next. Crops touch more than they take: of 128^3 in chunks of
// 64^3 or less, 1.4 times as much where it is shared.
func (d *device) cacheShare(rest int64) int64 {
	c := &d.p.cfg
	switch {
	case c.DecodedBytes > 0 || c.Reuse == ReuseNone:
		return 0
	case c.Reuse == ReuseBatch:
		return min(rest/2, d.batchSource()*3/2)
	}
	return rest / 2
}

// batchSource is the size of a batch in the types of its arrays.
func (d *device) batchSource() (n int64) {
	for i, f := range d.p.fields {
		size := 1
		for _, a := range d.p.arraysOf(&d.p.cfg.Fields[i]) {
			size = max(size, a.meta.DType.Size())
		}
		n += int64(d.p.cfg.BatchSize) * int64(f.sampleBytes/f.dtype.Size()*size)
	}
	return n
}

// fitWave finds the largest wave whose stages fit rest, and divides the host's memory for
// it. A chunk is the least.
func (d *device) fitWave(rest int64) (wave int64, err error) {
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
// and what decoders work in.
func (d *device) stageBytes(wave int64) (int64, error) {
	r := d.room(wave)
	n := deviceWaves*r.bytes() + room{}.bytes()
	work, err := d.workBytes(r)
	n += deviceCalls * work
	if d.frames != nil {
		n += d.frames.bytes
	}
	return n, err
}

// room is what a stage needs for waves of a size and one chunk that is too much.
func (d *device) room(wave int64) room {
	r := room{chunks: waveChunks(wave), encoded: d.encoded(wave), decoded: wave + d.p.limits.chunk}
	if d.decoders.scratch {
		r.scratch = r.out()
	}
	return r
}

// storedWave is the most stored bytes of waves of a size: what is worth to be compressed
// has fewer, and other waves are smaller for it.
func storedWave(wave int64) int64 { return wave * 3 / 4 }

// encoded is the room of a stage for stored bytes: those of a wave, each chunk aligned,
// and the holes that are read along.
func (d *device) encoded(wave int64) int64 {
	return max(storedWave(wave)+d.p.limits.waveSlab/4, 2*d.p.limits.chunk) + int64(waveChunks(wave))*frameGrain + maxRead + 2*maxGap
}

// divideHost shares HostBytes out: what the workers need, the pinned memory of the
// stages, and the ring with the rest.
func (d *device) divideHost(wave int64) error {
	c, l := &d.p.cfg, &d.p.limits
	l.scratch = int64(c.Workers)*(l.chunk+codecScratch) + c.blocks()
	fixed := l.scratch + l.index + deviceWaves*(d.unpackedBytes(wave)+listBytes) + listBytes + fetchBytes
	least := 2*l.chunk + maxRead
	all := (deviceWaves + deviceAhead + 1) * storedWave(wave)
	l.slabs = max(least, min(ringMost, all))
	if c.HostBytes > 0 {
		l.slabs = min(max(least, all), c.HostBytes-fixed)
		if l.slabs < least {
			return nd.Errorf(nd.ErrBudget, "HostBytes %d is too little: scratch for %d workers %d, indexes %d, pinned buffers of %d waves and the least ring of %d need %d; raise it, or lower Workers",
				c.HostBytes, c.Workers, l.scratch, l.index, deviceWaves, least, fixed+least)
		}
	}
	l.waveSlab = l.slabs / (deviceWaves + deviceAhead + 1)
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
	each := d.room(wave)
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
	if at, err = d.openCalls(at, each); err != nil {
		return err
	}
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
