package codec

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Our encoder must cut blocks where c-blosc does: sample data stand for real
// ones in benchmarks, and the block is the unit of work on a GPU.
func TestBloscBlockSize(t *testing.T) {
	data := dataSet(t, "steps 3000000 1")
	cases := 0
	for _, g := range goldenCases(t, "blosc") {
		if g.Header == nil {
			continue
		}
		cases++
		b := stage(t, "blosc", string(g.Config)).(blosc)
		compressor, err := b.compressor()
		if err != nil {
			t.Fatal(err)
		}
		f := bloscFrame{compressor: compressor, typesize: b.typesize, nbytes: len(data)}
		f.blocksize = b.chooseBlock(f)
		header := f
		header.flags = b.flags(f)
		if b.clevel == 0 {
			header.flags |= bloscMemcpyed
		}
		want := g.Header[:12]
		if got := header.appendHeader(nil, 0)[:12]; !bytes.Equal(got, want) {
			t.Errorf("%s: header % x, c-blosc's is % x", g.Name, got, want)
		}
	}
	if cases == 0 {
		t.Fatal("no headers")
	}
}

// bloscExample is a frame of several blocks of several streams.
func bloscExample(t testing.TB) (frame, data []byte) {
	data = ramp(5000)
	frame, err := stage(t, "blosc", `{"cname":"lz4","clevel":5,"shuffle":1,"typesize":4,"blocksize":1024}`).Encode(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := parseBlosc(frame); err != nil || f.blocks() != 5 || f.streams(1024) != 4 {
		t.Fatalf("the example is another one: %+v, %v", f, err)
	}
	return frame, data
}

// Each broken field of a frame is found, and named.
func TestBloscCorrupt(t *testing.T) {
	good, data := bloscExample(t)
	put := func(at int, n uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], n); return b }
	}
	flag := func(set byte) func([]byte) []byte {
		return func(b []byte) []byte { b[2] |= set; return b }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		kind   error
		word   string
	}{
		"nothing":                 {func(b []byte) []byte { return nil }, nd.ErrCorrupt, "header"},
		"half a header":           {func(b []byte) []byte { return b[:9] }, nd.ErrCorrupt, "header"},
		"version 1":               {func(b []byte) []byte { b[0] = 1; return b }, nd.ErrUnsupported, "version 1"},
		"blosc2 by version":       {func(b []byte) []byte { b[0] = 5; return b }, nd.ErrUnsupported, "blosc2"},
		"blosc2 by flags":         {flag(bloscShuffle | bloscBitShuffle), nd.ErrUnsupported, "blosc2"},
		"reserved flag":           {flag(bloscReserved), nd.ErrUnsupported, "reserved"},
		"compressor":              {flag(7 << 5), nd.ErrUnsupported, "compressor 7"},
		"version of lz4":          {func(b []byte) []byte { b[1] = 2; return b }, nd.ErrUnsupported, "compressor 1, version 2"},
		"typesize 0":              {func(b []byte) []byte { b[3] = 0; return b }, nd.ErrCorrupt, "typesize 0"},
		"typesize that halves":    {func(b []byte) []byte { b[3] = 8; return b }, nd.ErrCorrupt, "block 0 of 5"},
		"block size 0":            {put(8, 0), nd.ErrCorrupt, "block size 0"},
		"block size 1":            {put(8, 1), nd.ErrCorrupt, "5000 blocks"},
		"block size beyond":       {put(8, 5001), nd.ErrCorrupt, "block size 5001"},
		"block size odd":          {put(8, 1023), nd.ErrCorrupt, "split"},
		"decoded size, more":      {put(4, 5001), nd.ErrCorrupt, "more than"},
		"decoded size, less":      {put(4, 4999), nd.ErrCorrupt, "block 4 of 5"},
		"decoded size, huge":      {put(4, 1<<32-1), nd.ErrCorrupt, "decoded size"},
		"encoded size, more":      {put(12, uint32(len(good)+1)), nd.ErrCorrupt, "truncated"},
		"encoded size, less":      {put(12, uint32(len(good)-1)), nd.ErrCorrupt, "stream"},
		"encoded size, no header": {put(12, 15), nd.ErrCorrupt, "compressed size 15"},
		"truncated":               {func(b []byte) []byte { return b[:len(b)-1] }, nd.ErrCorrupt, "truncated"},
		"memcpyed, size":          {flag(bloscMemcpyed), nd.ErrCorrupt, "plain bytes"},
		"start in the table":      {put(16, 35), nd.ErrCorrupt, "starts at byte 35"},
		"start negative":          {put(20, 1<<31), nd.ErrCorrupt, "block 1 of 5"},
		"start at the end":        {put(24, uint32(len(good))), nd.ErrCorrupt, "block 2 of 5"},
		"start near the end":      {put(24, uint32(len(good)-2)), nd.ErrCorrupt, "ends"},
		"stream of 0 bytes":       {put(36, 0), nd.ErrCorrupt, "stream of 0"},
		"stream negative":         {put(36, 1<<32-7), nd.ErrCorrupt, "stream of -7"},
		"stream too long":         {put(36, 1<<30), nd.ErrCorrupt, "stream of 1073741824"},
		"stream too short":        {put(36, 2), nd.ErrCorrupt, "lz4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewScratch()
			_, err := stage(t, "blosc", "").Decode(make([]byte, len(data)), c.change(bytes.Clone(good)), s)
			wantKind(t, err, c.kind, "blosc", c.word)
		})
	}
}

// Blocks may lie in any order and behind each other at any distance, and bytes
// may follow the frame: z5 leaves 16 of them.
func TestBloscLayout(t *testing.T) {
	good, data := bloscExample(t)
	f, err := parseBlosc(good)
	if err != nil {
		t.Fatal(err)
	}
	moved := bytes.Clone(good[:bloscHeader+4*f.blocks()])
	for i := f.blocks() - 1; i >= 0; i-- {
		start := binary.LittleEndian.Uint32(good[bloscHeader+4*i:])
		stop := uint32(len(good))
		if i+1 < f.blocks() {
			stop = binary.LittleEndian.Uint32(good[bloscHeader+4*(i+1):])
		}
		moved = append(moved, "gap"...)
		binary.LittleEndian.PutUint32(moved[bloscHeader+4*i:], uint32(len(moved)))
		moved = append(moved, good[start:stop]...)
	}
	binary.LittleEndian.PutUint32(moved[12:], uint32(len(moved)))
	moved = append(moved, make([]byte, 16)...)
	got, err := stage(t, "blosc", "").Decode(make([]byte, len(data)), moved, NewScratch())
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%v", err)
	}
}

// A frame of plain bytes is not unshuffled, whatever its flags say (c-blosc
// leaves them as asked for), and is not copied.
func TestBloscMemcpyed(t *testing.T) {
	data := noise(1000)
	for _, shuffle := range []byte{0, bloscShuffle, bloscBitShuffle} {
		f := bloscFrame{flags: bloscMemcpyed | shuffle | bloscZstd<<5, typesize: 2, nbytes: len(data), blocksize: len(data)}
		frame := append(f.appendHeader(nil, bloscHeader+len(data)), data...)
		got, err := chain(t, len(data), stage(t, "blosc", "")).Decode(make([]byte, len(data)), frame, NewScratch())
		if err != nil || !bytes.Equal(got, data) || &got[0] != &frame[bloscHeader] {
			t.Fatalf("shuffle %d: %v", shuffle, err)
		}
	}
}
