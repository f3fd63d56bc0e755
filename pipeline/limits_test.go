package pipeline

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store/storetest"
)

// A chunk of far more stored bytes than it decodes to, here of empty blocks, is refused alike on the
// host and on a device, and not a byte of it is read.
func TestLongChunksAreNotRead(t *testing.T) {
	l := layout{shape: []int64{16, 16}, chunk: []int64{4, 4}, dtype: nd.U16, codec: "zstd"}
	a := makeArray(t, rand.New(rand.NewPCG(1, 1)), l)
	frame := append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x20}, make([]byte, ringBytes(32))...) // raw blocks of no bytes
	a.files = maps.Clone(a.files)
	a.files["c/0/0"] = frame
	for _, device := range []string{"", "fake"} {
		counting := storetest.NewCounting(a.stored("cube"))
		cfg := wholeCfg(counting)
		if device != "" {
			onFake(t, &cfg)
		}
		p, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		push(t, p, grid(4)...)
		b := next(t, p)
		if errs := b.Errs(); len(errs) != 1 || !errors.Is(errs[0], nd.ErrBudget) || !strings.Contains(errs[0].Error(), "stored bytes") || !strings.Contains(errs[0].Error(), "c/0/0") {
			t.Errorf("device %q: %v", device, errs)
		}
		if n, bytes := counting.Reads("cube/c/0/0"); n > 0 {
			t.Errorf("device %q: %d reads of %d bytes", device, n, bytes)
		}
		release(t, b)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The limit is the ring's: what may be read fits, whatever the budget.
func TestCheckStored(t *testing.T) {
	for _, decoded := range []int64{0, 4096, 64 << 20, 1 << 31} {
		if err := CheckStored(ringBytes(decoded), decoded); err != nil {
			t.Errorf("%d: %v", decoded, err)
		}
		if err := CheckStored(ringBytes(decoded)+1, decoded); !errors.Is(err, nd.ErrBudget) {
			t.Errorf("%d: %v", decoded, err)
		}
	}
}
