package companion

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
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
	what := strings.Replace(pair(t, 2), `"batch_size"`, `"device_bytes": 201326592, "host_bytes": 201326592, "workers": 1, "batch_size"`, 1)
	handle := p.open(what)
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
