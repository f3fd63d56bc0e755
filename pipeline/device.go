package pipeline

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/decode"
	"github.com/headrace/headrace/nd"
)

// device is the backend on a GPU. A wave passes through
//
//	submit     gives it its stage, its memory on the device
//	workers    decode on the host what has no kernel, or what the settler asks for
//	issuer     hands copies, decode and assemble to streams, in the order of the
//	           waves                                            (device_issue.go)
//	settler    waits for the wave's event, looks at the statuses of its chunks and
//	           mends what the host can                          (device_settle.go)
//
// One stream copies to the device, and each stage has one that computes: copies of a
// wave overlap with the kernels of the ones before, and the decoders of several
// waves fill the device together.
type device struct {
	p        *Pipeline
	gpu      *cuda.Device
	module   *cuda.Module
	kernel   struct{ assemble, decode, inflate, crc32c, gather kernel }
	gathers  bool // the driver has no batched copy
	copies   *cuda.Stream
	fetches  *cuda.Stream
	events   *eventPool
	frames   *frames      // nil without a library
	zstd     *decode.Zstd // nil where no array needs it
	calls    []zstdCall   // of it
	turn     int          // the call that is next, the issuer's
	decoders decoders
	clock    clock

	node     int     // NUMA node next to the GPU, -1 where there is no choice
	ring     *pinned // p.slabs
	fetching sync.Mutex
	bounce   []byte // pinned, for fetch; nil once closed

	memory     cuda.Ptr // the decoded cache and the stages, one allocation
	decoded    cuda.Ptr // arena of kept chunks
	compressed cuda.Ptr // arena of kept stored bytes
	mender     *stage   // the settler's own, to place chunks again
	stages     []*stage // of the waves in flight
	mu         sync.Mutex
	idle       []*stage // of these, without a wave
	parked     []*wave  // submitted, without a stage

	todo      *queue[unpackTask]
	submitted chan *wave
	issued    chan *wave
	before    *cuda.Event  // the chunks of all issued waves are decoded; the issuer's
	latest    atomic.Int64 // number of the last wave that was issued, or is being
	again     atomic.Int64 // chunks that were assembled again, for tests
	stop      chan struct{}
	running   sync.WaitGroup
}

// openDevice gets hold of the GPU: what is missing there is found before memory is
// divided.
func openDevice(p *Pipeline) (_ backend, err error) {
	d := &device{p: p, todo: newQueue[unpackTask](), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.free())
		}
	}()
	driver, err := cuda.Load(p.cfg.Driver)
	if err != nil {
		return nil, err
	}
	ordinal, err := driver.Find(string(p.cfg.Device))
	if err != nil {
		return nil, err
	}
	if d.gpu, err = driver.Open(ordinal); err != nil {
		return nil, err
	}
	d.node = memoryNode(os.DirFS("/sys"), d.gpu.Info().BusID)
	if err := d.loadKernels(); err != nil {
		return nil, err
	}
	for _, s := range []**cuda.Stream{&d.copies, &d.fetches} {
		if *s, err = d.gpu.NewStream(cuda.LowPriority); err != nil {
			return nil, err
		}
	}
	d.events = &eventPool{gpu: d.gpu}
	if err := d.openFrames(); err != nil {
		return nil, err
	}
	if err := d.openDecoders(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *device) start() {
	d.submitted = make(chan *wave, len(d.stages))
	d.issued = make(chan *wave, len(d.stages))
	for range d.p.cfg.Workers {
		d.running.Go(d.unpackTasks)
	}
	d.running.Go(d.issueWaves)
	d.running.Go(d.settleWaves)
}

// submit queues the wave for a stage. There is one for each wave in flight, save the last
// deviceAhead, which wait for another to end.
func (d *device) submit(w *wave) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parked = append(d.parked, w)
	d.admit()
}

// admit gives idle stages to the waves that wait, in their order, and asks the
// workers for what they must decode. d.mu is held, so that the order is kept.
func (d *device) admit() {
	for len(d.idle) > 0 && len(d.parked) > 0 {
		w := d.parked[0]
		d.parked = append(d.parked[:0], d.parked[1:]...)
		n := len(d.idle)
		w.stage, d.idle = d.idle[n-1], d.idle[:n-1]
		w.undone.Store(d.decide(w) + 1)
		for i := range w.chunks {
			if w.chunks[i].route.by == byWorker {
				d.todo.put(unpackTask{w, i})
			}
		}
		d.unpacked(w)
		d.submitted <- w // as many places as stages: it never waits
	}
}

// unpacked counts a task of the wave; with the last one it may be issued, or the settler
// goes on with it.
func (d *device) unpacked(w *wave) {
	if w.undone.Add(-1) == 0 {
		w.stage.ready <- struct{}{}
	}
}

// close ends the goroutines. No wave is in hand then, unless the pipeline failed.
func (d *device) close() {
	close(d.stop)
	d.todo.close()
	d.running.Wait()
}

// mappings is nil where nothing is to be mapped, or can be.
func (d *device) mappings(request func(*mapping)) *mappings {
	c := &d.p.cfg
	if c.Reader != "" && c.Reader != "mapped" || !d.gpu.Info().ReadOnlyRegister {
		return nil
	}
	limit := c.MappedBytes
	if limit == 0 {
		limit = mappedBytes
	}
	return &mappings{gpu: d.gpu, limit: limit, list: map[mappingKey]*mapping{}, retired: map[*mapping]int64{}, bound: mappingsLeast, request: request, counts: &d.p.counts}
}

// free gives back what waves need. What batches need stays until the last Release.
func (d *device) free() error {
	var errs []error
	stages := append(d.stages, d.mender)
	errs = append(errs, d.drainStreams(stages))
	if s := d.p.sched; s != nil {
		errs = append(errs, s.mappings.close())
	}
	for _, s := range stages {
		if s != nil {
			errs = append(errs, s.free(d.gpu))
		}
	}
	for i := range d.calls {
		errs = append(errs, d.calls[i].free())
	}
	if d.memory != 0 {
		errs = append(errs, d.gpu.Free(d.memory))
	}
	if d.clock.latest != nil {
		errs = append(errs, d.clock.latest.Close())
	}
	errs = append(errs, d.ring.free(d.gpu))
	d.ring, d.p.slabs = nil, nil
	errs = append(errs, d.frames.free())
	if d.copies != nil {
		errs = append(errs, d.copies.Close())
	}
	if d.p.slots != nil {
		errs = append(errs, d.p.slots.close())
	} else {
		errs = append(errs, d.freeLast())
	}
	return whole(errs)
}

// drainStreams waits for what a wave whose issue failed half-way has left on the
// streams: its copies read memory that is about to go.
func (d *device) drainStreams(stages []*stage) error {
	streams := []*cuda.Stream{d.copies}
	if d.frames != nil {
		streams = append(streams, d.frames.stream)
	}
	for _, s := range stages {
		if s != nil {
			streams = append(streams, s.compute)
		}
	}
	var errs []error
	for _, s := range streams {
		if s != nil {
			errs = append(errs, s.Drain())
		}
	}
	return whole(errs)
}

// freeLast gives back what batches need, and the GPU.
func (d *device) freeLast() error {
	if d.gpu == nil {
		return nil
	}
	d.fetching.Lock()
	defer d.fetching.Unlock()
	var errs []error
	if d.bounce != nil {
		errs = append(errs, d.gpu.FreeHost(d.bounce))
		d.bounce = nil
	}
	if d.events != nil {
		errs = append(errs, d.events.close())
	}
	if d.fetches != nil {
		errs = append(errs, d.fetches.Close())
	}
	return whole(append(errs, d.gpu.Close()))
}

// whole joins errors, save for those that say that the device is lost: it has
// nothing to give back any more.
func whole(errs []error) error {
	var rest []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, nd.ErrDevice) {
			rest = append(rest, err)
		}
	}
	return errors.Join(rest...)
}

// unpackTask is a chunk of a wave for the workers.
type unpackTask struct {
	wave  *wave
	chunk int
}

// unpackTasks is the loop of a worker.
func (d *device) unpackTasks() {
	defer d.p.recoverBug()
	scratch := codec.NewScratch()
	defer scratch.Close()
	for {
		t, ok := d.todo.take()
		if !ok {
			return
		}
		c := &t.wave.chunks[t.chunk]
		packed, err := d.encodedBytesOf(c)
		if err == nil {
			err = d.unpack(c, packed, t.wave.stage.unpacked.mem[c.route.unpacked:][:c.size], scratch)
		}
		if err != nil {
			t.wave.fail(t.chunk, err)
		}
		d.unpacked(t.wave)
	}
}

// unpack decodes a chunk on the host.
func (d *device) unpack(c *waveChunk, packed, dst []byte, scratch *codec.Scratch) error {
	began := time.Now()
	if c.size == c.recipe.size { // else it is a part of a raw chunk
		src, err := c.recipe.chain.Decode(dst, packed, scratch)
		if err != nil {
			return err
		}
		packed = src
	}
	if len(packed) > 0 && &packed[0] != &dst[0] {
		copy(dst, packed)
	}
	d.p.counts.decode.add(1, time.Since(began), c.length, c.size)
	d.p.counts.onHost.Add(1)
	return nil
}
