package companion

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/internal/testwait"
	"github.com/headrace/headrace/pipeline"
)

const gpuHello = `{"release": "test", "pid": 1, "env": {}, "memory": ["memfd", "cuda_ipc"]}`

// On a GPU each slot is an allocation that is described once, with the GPU's UUID, and
// may be forgotten when it goes. What the importer sees is tested from Python: a
// process cannot open its own memory.
func TestBatchesOnAGPU(t *testing.T) {
	fake := cudatest.New(t)
	e, stop := serve(t, Config{Device: "cuda:0", Driver: fake.Path})
	if p, w := connect(t, e, Version, hello); w.Error == nil || !strings.Contains(w.Error.Message, "cuda_ipc") {
		t.Errorf("a client that takes no memory of a GPU: %+v", w)
		p.close()
	}
	p, w := connect(t, e, Version, gpuHello)
	if w.Error != nil || w.Device != "cuda:0" {
		t.Fatalf("%+v", w)
	}
	p.closes = true
	handle := p.open(pairOnGPU(t))
	known := map[uint64]Memory{}
	for i := range int64(6) {
		p.push(handle, i)
		b := p.onGPU(p.next(handle))
		for _, m := range b.New {
			if _, twice := known[m.ID]; twice || m.Kind != cudaIPC || m.Bytes <= 0 || !strings.HasPrefix(m.UUID, "GPU-") {
				t.Errorf("described: %+v, known %v", m, known)
			}
			if raw, err := hex.DecodeString(m.Handle); err != nil || len(raw) != 64 {
				t.Errorf("handle %q", m.Handle)
			}
			known[m.ID] = m
		}
		if _, ok := known[b.Memory]; !ok || len(b.Fields) != 2 {
			t.Fatalf("%+v in none of %v", b, known)
		}
		x, y := b.Fields[0], b.Fields[1]
		if x.DeviceType != deviceCUDA || x.DeviceID != 0 || x.Offset != 0 || y.Offset != 256 {
			t.Errorf("fields %+v", b.Fields)
		}
		p.give(b.Token)
	}
	if len(known) == 0 || len(known) > 2 {
		t.Errorf("%d allocations for 2 slots", len(known))
	}
	p.call(kindClose, numbers(handle), kindResult)
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindError) // a frame behind what was freed
	for id := range known {
		if !slices.Contains(p.gone, id) {
			t.Errorf("memory %d was freed, the client may forget %v", id, p.gone)
		}
	}
	stop()
	if live := fake.Live(); live != (cudatest.Live{}) {
		t.Errorf("%+v is held", live)
	}
}

// pairOnGPU is a pipeline of two slots.
func pairOnGPU(t *testing.T) string {
	t.Helper()
	return strings.Replace(pair(t, 2), `"batch_size"`, `"device_bytes": 201326592, "host_bytes": 201326592, "workers": 1, "batch_size"`, 1)
}

// lend starts an engine and a client that has a batch, its pipeline's handle, and the
// batch's memory, alone.
func lend(t *testing.T, grace time.Duration) (fake *cudatest.Fake, p *peer, handle uint64, b Batch, stop func()) {
	t.Helper()
	fake = cudatest.New(t)
	e, stop := serve(t, Config{Device: "cuda:0", Driver: fake.Path, Grace: grace})
	p, w := connect(t, e, Version, gpuHello)
	if w.Error != nil {
		t.Fatal(w.Error.Message)
	}
	handle = p.open(pairOnGPU(t))
	p.push(handle, 0)
	b = p.onGPU(p.next(handle))
	if len(b.New) != 1 || b.New[0].ID != b.Memory {
		t.Fatalf("%+v", b)
	}
	return fake, p, handle, b, stop
}

// longGrace is more than a test waits: nothing ends because of it.
const longGrace = 2 * patience

// allGone waits until nothing is left on the GPU, for less time than an engine waits
// for a client that says nothing.
func allGone(t *testing.T, fake *cudatest.Fake, began time.Time) {
	t.Helper()
	testwait.Until(t, "memory of the client is still on the GPU", func() bool { return fake.Live() == (cudatest.Live{}) })
	if took := time.Since(began); took > closePatience*3/4 {
		t.Errorf("it took %v: nobody heard the client", took)
	}
}

// CUDA leaves undefined what a client sees of memory that was freed: none goes while a
// client that lives may have it open.
func TestMemoryWaitsForTheClient(t *testing.T) {
	fake, p, handle, b, _ := lend(t, longGrace)
	p.give(b.Token)
	p.push(handle, 1)
	b = p.onGPU(p.next(handle)) // the token was heard, or the other slot is taken
	p.give(b.Token)
	began := time.Now()
	id := p.send(kindClose, numbers(handle))
	if k, _, _, _ := p.frame(); k != kindForget {
		t.Fatalf("a frame of kind %d, not what may be forgotten", k)
	}
	p.call(kindAsk, []byte(`{"handle": 77, "method": "stats", "argument": null}`), kindError) // and the closing has not ended
	if fake.Live().Device == 0 {
		t.Error("memory was freed that the client has open")
	}
	p.closes = true
	for _, memory := range p.gone {
		p.closed(memory)
	}
	p.expect(id, kindResult)
	allGone(t, fake, began)
}

// A batch that is held when its pipeline closes keeps its memory, until it was given
// back and closed; that the engine waits for the second keeps it from nothing else.
func TestHeldMemoryWaitsForTheClient(t *testing.T) {
	fake, p, handle, b, _ := lend(t, longGrace)
	p.call(kindClose, numbers(handle), kindResult)
	began := time.Now()
	p.give(b.Token)
	if k, _, _, _ := p.frame(); k != kindForget || !slices.Equal(p.gone, []uint64{b.Memory}) {
		t.Fatalf("a frame of kind %d; the client may forget %v", k, p.gone)
	}
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindError)
	if fake.Live().Device == 0 {
		t.Error("memory was freed that the client has open")
	}
	p.closed(b.Memory)
	allGone(t, fake, began)
}

// A client that ends closes all it had open, without a word.
func TestMemoryOfAClientThatEnds(t *testing.T) {
	fake, p, _, _, _ := lend(t, longGrace)
	began := time.Now()
	p.close()
	allGone(t, fake, began)
}

// An engine that is asked to stop waits no longer than its grace for a client that does
// not close memory, be that memory of a pipeline that closes or of a batch that is held.
func TestStopWithMemoryThatIsOpen(t *testing.T) {
	for _, closing := range []bool{true, false} {
		fake, p, handle, b, stop := lend(t, 50*time.Millisecond)
		began := time.Now()
		if closing {
			p.give(b.Token)
			p.push(handle, 1)
			p.onGPU(p.next(handle))
			p.send(kindClose, numbers(handle))
		}
		stop()
		allGone(t, fake, began)
	}
}

// Memory that the client was never told of waits for nobody, and no client makes it
// wait for ever.
func TestRecall(t *testing.T) {
	s := newSlots()
	lent := func(told bool) string {
		name := fmt.Sprint(len(s.lent), told)
		sl := s.lend(pipeline.Exported{Allocation: name})
		if told {
			s.tell(sl)
		}
		return name
	}
	recall := func(names ...any) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Recall(names)
		}()
		select {
		case <-done:
		case <-time.After(patience / 2):
			t.Fatalf("the engine waits for %v", names)
		}
	}
	s.patience = patience
	recall(lent(false), "of nobody")
	early := lent(true) // it could not be opened
	s.closed(s.last)
	s.closed(s.last) // a client that says it twice does no harm
	recall(early)
	s.patience = time.Millisecond
	recall(lent(true))
	s.patience = patience
	s.end()
	recall(lent(true), lent(true))
}

// onGPU reads a batch that comes without descriptors.
func (p *peer) onGPU(id uint64) (b Batch) {
	p.t.Helper()
	k, got, payload, fds := p.reply()
	if k != kindBatch || got != id || len(fds) > 0 {
		p.t.Fatalf("reply %d to request %d with %d descriptors: %s", k, got, len(fds), payload)
	}
	if err := parseStrict(payload, &b); err != nil {
		p.t.Fatal(err)
	}
	return b
}
