package cuda_test

import (
	"bytes"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// The kernels' image loads and has every kernel, and one that is launched gets its
// parameters: on the fake driver this is the host build, on a GPU the real one.
func TestKernels(t *testing.T) {
	r := open(t)
	module := must(r.LoadModule(kernels.Images()))(t)
	for name, block := range map[string]int{
		kernels.Assemble: kernels.AssembleBlock, kernels.Decode: kernels.DecodeBlock, kernels.Gather: kernels.GatherBlock,
	} {
		f := must(module.Function(name))(t)
		attributes := must(f.Attributes())(t)
		t.Logf("%s: %+v", name, attributes)
		if attributes.MaxThreads < block {
			t.Errorf("%s takes blocks of %d threads, its block is %d", name, attributes.MaxThreads, block)
		}
	}
	const n = 10_000
	mem, p, table := r.host(n), r.alloc(n), r.host(2*kernels.PieceBytes)
	numbers(mem)
	half := kernels.Piece{Dst: uint64(p), Src: uint64(cuda.Address(mem)) + n/2, N: n / 2}
	rest := kernels.Piece{Dst: uint64(p) + n/2, Src: uint64(cuda.Address(mem)), N: n / 2}
	copy(table, rest.Append(half.Append(nil)))
	gather := must(module.Function(kernels.Gather))(t)
	params := kernels.GatherParams{Pieces: uint64(cuda.Address(table)), N: 2}.Append(nil)
	var c cuda.Commands
	c.Launch(r.stream, gather, 2, kernels.GatherBlock, 0, params)
	r.finish(&c)
	if want := append(append([]byte(nil), mem[n/2:]...), mem[:n/2]...); !bytes.Equal(r.read(p, n), want) {
		t.Error("the pieces are not where they belong")
	}
	r.quiet()
}
