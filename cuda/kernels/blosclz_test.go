package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// blosclzFrame is a frame whose only stream is given.
func blosclzFrame(name string, stream []byte, size int) chunkCase {
	frame := []byte{2, 1, 0x10, 1}
	for _, n := range []int{size, size, 24 + len(stream), 20, len(stream)} {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(n))
	}
	return chunkCase{name: name, method: Blosc, src: append(frame, stream...), size: size}
}

// instructions writes a stream of blosclz.
type instructions struct {
	stream []byte
	size   int // that it decodes to
}

func (s *instructions) literals(b []byte) {
	s.stream = append(append(s.stream, byte(len(b)-1)), b...)
	s.size += len(b)
}

// match is of 3 bytes at least. The distance is not checked.
func (s *instructions) match(distance, length int) {
	s.size += length
	near := min(distance-1, 8191)
	length -= 2
	s.stream = append(s.stream, byte(min(length, 7)<<5|near>>8))
	if length >= 7 {
		for length -= 7; length >= 255; length -= 255 {
			s.stream = append(s.stream, 255)
		}
		s.stream = append(s.stream, byte(length))
	}
	s.stream = append(s.stream, byte(near))
	if near == 8191 {
		s.stream = binary.BigEndian.AppendUint16(s.stream, uint16(distance-1-8191))
	}
}

// randomInstructions is a stream of about n bytes decoded. rare is how rarely a match is long:
// never if it is 0.
func randomInstructions(r *rand.Rand, n, rare int) instructions {
	var s instructions
	s.literals(randomBytes(r, 1+r.IntN(32)))
	for s.size < n {
		if r.IntN(3) == 0 {
			s.literals(randomBytes(r, 1+r.IntN(32)))
			continue
		}
		length := 3 + r.IntN(12)
		if rare > 0 && r.IntN(20*rare*rare) == 0 {
			length += r.IntN(5000)
		}
		s.match(1+r.IntN(min(s.size, []int{4, 40, 8300, 8191 + 65536}[r.IntN(4)])), length)
	}
	return s
}

// Instructions of all kinds one after the other, near and far, so that output and
// stream move through shared memory many times.
func TestBlosclzInstructions(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(71, 72))
	var cases []chunkCase
	for i := range 16 {
		s := randomInstructions(r, []int{300, 5000, 40_000, 120_000}[i/4], i%4)
		c := d.expect(t, blosclzFrame(fmt.Sprintf("stream %d", i), s.stream, s.size))
		if c.want == nil {
			t.Fatalf("%s: codec refuses it", c.name)
		}
		cases = append(cases, c)
	}
	onMachines(t, func(t *testing.T, m *machine) { decodeAll(t, m, cases) })
}

// Streams at the bounds: matches as far and as long as there is room for, and once a
// byte more, alone and where a warp decodes many; streams that are torn anywhere.
func TestBlosclzBounds(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(73, 74))
	var cases []chunkCase
	add := func(name string, s instructions, over int) {
		cases = append(cases, d.expect(t, blosclzFrame(fmt.Sprintf("%s, %d bytes for %d", name, s.size, s.size+over), s.stream, s.size+over)))
	}
	for _, before := range []int{1, 32, 700, 8191, 8193, 70_000} {
		var head instructions
		for n := before; n > 0; n -= min(n, 32) {
			head.literals(randomBytes(r, min(n, 32)))
		}
		for _, distance := range []int{1, 31, before - 1, before, before + 1, 8191, 8192, 8191 + 65536} {
			for _, length := range []int{3, 8, 9, 263, 264, 20_000} {
				if distance < 1 || (before != 32 && length == 20_000 || before > 700 && (distance < 8191 || length == 263)) {
					continue // the windows of fibers take their time
				}
				s := instructions{slices.Clip(head.stream), head.size}
				s.match(distance, length)
				name := fmt.Sprintf("%d literals, match of %d at %d", before, length, distance)
				for over := -1; over <= 1; over++ {
					add(name, s, over)
				}
				for n := range min(4, len(s.stream)-len(head.stream)) {
					add(name+" torn", instructions{s.stream[:len(s.stream)-1-n], s.size}, 0)
				}
				s.literals([]byte("literals"))
				s.match(5, 4)
				add(name+" and more", s, 0)
			}
		}
	}
	for first := range 256 { // of the first control byte, five bits count
		add(fmt.Sprintf("begins with %d", first), instructions{append([]byte{byte(first)}, randomBytes(r, 32)[:first%32+1]...), first%32 + 1}, 0)
	}
	good := 0
	for _, c := range cases {
		if c.want != nil {
			good++
		}
	}
	if good < 256+len(cases)/10 || good > len(cases)/2+256 {
		t.Fatalf("%d of %d are good: the cases are not varied", good, len(cases))
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for some := range slices.Chunk(m.thin(cases, 2000, 5), 500) {
			decodeAll(t, m, some)
		}
	})
}

// Damaged streams: never a byte out of bounds, and codec's verdict.
func TestBlosclzDamage(t *testing.T) {
	d := newDecoder(t)
	defer d.scratch.Close()
	r := rand.New(rand.NewPCG(75, 76))
	var cases []chunkCase
	for i := range 1000 {
		s := randomInstructions(r, 20+r.IntN(3000), i%4)
		stream := bytes.Clone(s.stream)
		for range 1 + r.IntN(3) {
			stream[r.IntN(len(stream))] = []byte{0, 31, 32, 0xff, 0x1f | 0x20, byte(r.Uint32())}[r.IntN(6)]
		}
		if i%5 == 0 {
			stream = stream[:1+r.IntN(len(stream))]
		}
		cases = append(cases, d.expect(t, blosclzFrame(fmt.Sprintf("damage %d", i), stream, s.size)))
	}
	onMachines(t, func(t *testing.T, m *machine) {
		for some := range slices.Chunk(cases, 500) {
			decodeAll(t, m, some)
		}
	})
}

// FuzzBlosclz holds what becomes of any stream against what codec makes of it. Fibers are
// slow, but one thread a block has no windows.
func FuzzBlosclz(f *testing.F) {
	d := newDecoder(f)
	r := rand.New(rand.NewPCG(77, 78))
	for i := range 8 {
		s := randomInstructions(r, 10<<i, i%4)
		f.Add(s.stream, uint16(s.size))
	}
	m := start(f, asFibers)
	f.Fuzz(func(t *testing.T, stream []byte, size uint16) {
		if size == 0 || len(stream) == int(size) {
			return // such a frame has no stream, or one that is stored
		}
		decodeAll(t, m, []chunkCase{d.expect(t, blosclzFrame("fuzz", stream, int(size)))})
	})
}
