package cuda_test

import (
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// A wave's worth of commands that do next to nothing: what submitting and waiting cost.
func BenchmarkRunAndWait(b *testing.B) {
	r := open(b)
	f, mem, p := r.add(), r.host(64*kib), r.alloc(64*kib)
	params := addParams(p, 100, 1)
	var c cuda.Commands
	b.ReportAllocs()
	for b.Loop() {
		c.Reset()
		for range 4 {
			c.Copy(r.stream, p, cuda.Address(mem), 4*kib)
			c.Launch(r.stream, f, 1, 128, 0, params)
		}
		c.Record(r.stream, r.event)
		ok(b, r.Run(&c))
		ok(b, r.event.Wait())
	}
}

// Scattered pieces of 176 KiB, the size of an encoded chunk, from the pinned page
// cache: one batched copy against one copy each, and against a kernel of 8 blocks.
func BenchmarkScattered(b *testing.B) {
	const piece, count = 176 * kib, 1500
	for _, way := range []string{"batch", "each", "gather"} {
		b.Run(way, func(b *testing.B) {
			r := open(b)
			mem := mapFile(b, piece*count)
			ok(b, r.Register(mem, true))
			p := r.alloc(piece * count)
			var list []cuda.Piece
			for i, from := range rand.New(rand.NewPCG(1, 2)).Perm(count) {
				list = append(list, cuda.Piece{Dst: p + cuda.Ptr(i*piece), Src: cuda.Address(mem[from*piece:]), N: piece})
			}
			table := r.host(count * kernels.PieceBytes)
			packed := table[:0]
			for _, one := range list {
				packed = kernels.Piece{Dst: uint64(one.Dst), Src: uint64(one.Src), N: one.N}.Append(packed)
			}
			gather := must(must(r.LoadModule(kernels.Images()))(b).Function(kernels.Gather))(b)
			params := kernels.GatherParams{Pieces: uint64(cuda.Address(table)), N: count}.Append(nil)
			var c cuda.Commands
			b.SetBytes(piece * count)
			for b.Loop() {
				c.Reset()
				switch way {
				case "batch":
					c.CopyBatch(r.stream, list)
				case "gather":
					c.Launch(r.stream, gather, 8, kernels.GatherBlock, 0, params)
				default:
					for _, one := range list {
						c.Copy(r.stream, one.Dst, one.Src, int64(one.N))
					}
				}
				c.Record(r.stream, r.event)
				ok(b, r.Run(&c))
				ok(b, r.event.Wait())
			}
			ok(b, r.Unregister(mem))
		})
	}
}
