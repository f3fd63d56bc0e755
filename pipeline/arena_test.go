package pipeline

import (
	"math/rand/v2"
	"testing"
)

// A range that was handed out never overlaps another one, lies inside the space,
// is aligned, and everything given back can be handed out again in one piece.
func TestArenaRangesAreDisjointAndMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		a := newArena(1 << 20)
		live := map[int32][2]int64{}
		for range 2000 {
			if r.IntN(3) > 0 {
				size := int64(1 + r.IntN(1<<(1+r.IntN(17))))
				n, off, ok := a.alloc(size)
				if !ok {
					continue
				}
				if off%arenaGrain != 0 || off < 0 || off+size > a.size {
					t.Fatalf("round %d: range %d+%d", round, off, size)
				}
				for m, o := range live {
					if off < o[1] && o[0] < off+size {
						t.Fatalf("round %d: block %d [%d,%d) overlaps block %d %v", round, n, off, off+size, m, o)
					}
				}
				live[n] = [2]int64{off, off + size}
			} else {
				for n := range live {
					a.release(n)
					delete(live, n)
					break
				}
			}
		}
		for n := range live {
			a.release(n)
		}
		if a.used != 0 {
			t.Fatalf("round %d: %d bytes leaked", round, a.used)
		}
		if _, _, ok := a.alloc(a.size); !ok {
			t.Fatalf("round %d: free neighbours were not merged", round)
		}
	}
}

// Space that is free in one piece is always found, whatever its size class.
func TestArenaFindsWhatFits(t *testing.T) {
	for size := int64(1); size < 1<<16; size += 97 {
		a := newArena(1 << 16)
		n, _, ok := a.alloc(size)
		if !ok {
			t.Fatalf("%d of %d bytes not found", size, a.size)
		}
		rest := a.size - a.blocks[n].size
		if rest == 0 {
			continue
		}
		if _, _, ok := a.alloc(rest); !ok {
			t.Fatalf("the rest of %d bytes not found after %d", rest, size)
		}
	}
	if _, _, ok := newArena(0).alloc(1); ok {
		t.Fatal("an empty arena gave memory")
	}
}

func BenchmarkArena(b *testing.B) {
	a := newArena(256 << 20)
	var ring [512]int32
	i := 0
	for b.Loop() {
		if ring[i] != 0 {
			a.release(ring[i])
		}
		ring[i], _, _ = a.alloc(int64(1+i%7) * 64 << 10)
		i = (i + 1) % len(ring)
	}
}
