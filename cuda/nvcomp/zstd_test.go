package nvcomp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/cuda/nvcomp"
	"github.com/headrace/headrace/nd"
)

// What encoders write passes, for its own decoded size; a shorter chunk does not.
// Some hand-made golden cases are for the host: nothing says that nvCOMP takes a long
// window, and of several frames or skippable ones it is known that it does not.
func TestCheckZstdTakesEncoders(t *testing.T) {
	refused := map[string]bool{"window of 2 GiB": true, "only skippable": true}
	several := func(name string) bool {
		return strings.HasPrefix(name, "two frames") || strings.HasPrefix(name, "skippable")
	}
	for _, s := range append(encoded(t), golden(t)...) {
		err := nvcomp.CheckZstd(s.frame, s.decoded)
		if refused[s.name] || several(s.name) {
			oneLine(t, err, nd.ErrUnsupported)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		checkTorn(t, s)
		if err := nvcomp.CheckZstd(append(bytes.Clone(s.frame), 0x28), s.decoded); err == nil {
			t.Errorf("%s: with a byte behind it: %v", s.name, err)
		}
	}
}

// checkTorn cuts a chunk at a few places.
func checkTorn(t *testing.T, s sample) {
	for _, n := range []int{0, 1, 8, len(s.frame) / 2, len(s.frame) - 1} {
		n = min(n, len(s.frame)-1)
		err := nvcomp.CheckZstd(s.frame[:n], s.decoded)
		if err == nil && s.decoded > 0 { // a part of many empty frames is as good
			t.Errorf("%s: the first %d of %d bytes pass", s.name, n, len(s.frame))
		}
	}
}

// A frame that tells its size may not be taken for another.
func TestCheckZstdSize(t *testing.T) {
	frame := stored(noise(1000))
	for _, n := range []int64{0, 999, 1001, 1 << 30} {
		oneLine(t, nvcomp.CheckZstd(frame, n), nd.ErrCorrupt, "expected")
	}
	oneLine(t, nvcomp.CheckZstd(frame, 1<<31), nd.ErrUnsupported)
	oneLine(t, nvcomp.CheckZstd(frame, -1), nd.ErrBug)
	oneLine(t, nvcomp.CheckZstd(append(bytes.Clone(frame), stored([]byte("and more"))...), 1008), nd.ErrUnsupported)
}

// frameOf builds a frame: a descriptor with what follows it, and blocks.
func frameOf(header string, blocks ...string) []byte {
	frame := append([]byte{0x28, 0xB5, 0x2F, 0xFD}, header...)
	for i, b := range blocks {
		head := uint32(b[0]) << 1
		if i == len(blocks)-1 {
			head |= 1
		}
		size := len(b) - 1
		if b[0] == 1 {
			size = 200
		}
		head |= uint32(size) << 3
		frame = binary.LittleEndian.AppendUint32(frame, head)[:len(frame)+3]
		frame = append(frame, b[1:]...)
	}
	return frame
}

// The rules of RFC 8878 that the walk can check, each broken by a frame of its own.
func TestCheckZstdRules(t *testing.T) {
	const window = "\x00\x58" // no content size, window of 2 MiB
	const sound = "\x02\x00\x00"
	for name, c := range map[string]struct {
		frame []byte
		kind  error // nil: it passes, for 200 bytes
		says  string
	}{
		"raw":                        {frameOf(window, "\x00"+string(noise(200))), nil, ""},
		"RLE":                        {frameOf(window, "\x01x"), nil, ""},
		"magic":                      {[]byte("\x28\xB5\x2F\xFC\x00\x58\x01\x00\x00"), nd.ErrCorrupt, "magic"},
		"legacy magic":               {[]byte("\x27\xB5\x2F\xFD\x00\x58\x01\x00\x00"), nd.ErrCorrupt, "magic"},
		"reserved bit":               {frameOf("\x08\x58", "\x01x"), nd.ErrCorrupt, "reserved bit"},
		"unused bit":                 {frameOf("\x10\x58", "\x01x"), nd.ErrUnsupported, "unused bit"},
		"dictionary":                 {frameOf("\x01\x58\x05", "\x01x"), nd.ErrUnsupported, "dictionary"},
		"window of level 22":         {frameOf("\x00\x88", "\x01x"), nil, ""},
		"long window":                {frameOf("\x00\x89", "\x01x"), nd.ErrUnsupported, "window"},
		"huge content":               {frameOf("\xE0\xff\xff\xff\xff\xff\xff\xff\xff", "\x01x"), nd.ErrUnsupported, "gives its size"},
		"content size":               {frameOf("\x20\xC8", "\x01x"), nil, ""},
		"other content size":         {frameOf("\x20\xC9", "\x01x"), nd.ErrCorrupt, "gives its size as 201"},
		"content beyond the blocks":  {frameOf("\xA0\x00\x00\x00\x01", "\x02\x00\x01\x00\xff"), nd.ErrCorrupt, "gives its size"},
		"block beyond the content":   {frameOf("\x20\x64", "\x01x"), nd.ErrCorrupt, "block of 200 bytes"},
		"checksum":                   {append(frameOf("\x04\x58", "\x01x"), 1, 2, 3, 4), nil, ""},
		"torn checksum":              {append(frameOf("\x04\x58", "\x01x"), 1, 2, 3), nd.ErrCorrupt, "goes beyond"},
		"reserved block":             {frameOf(window, "\x03x"), nd.ErrCorrupt, "reserved type"},
		"no last block":              {frameOf(window, "\x01x")[:6], nd.ErrCorrupt, "goes beyond"},
		"block too large":            {append([]byte("\x28\xB5\x2F\xFD\x00\x58"), 0x0b, 0, 0x10, 'x'), nd.ErrCorrupt, "at most 131072"},
		"RLE of nothing":             {append(frameOf(window), 3, 0, 0, 'x'), nd.ErrUnsupported, "no times"},
		"skippable":                  {append([]byte("\x5F\x2A\x4D\x18\x02\x00\x00\x00ab"), frameOf(window, "\x01x")...), nd.ErrUnsupported, "skippable"},
		"torn skippable":             {[]byte("\x50\x2A\x4D\x18\x03\x00\x00\x00ab"), nd.ErrCorrupt, "skippable"},
		"two frames":                 {append(frameOf(window, "\x01x"), frameOf(window, "\x01x")...), nd.ErrUnsupported, "more than one"},
		"skippable alone":            {[]byte("\x50\x2A\x4D\x18\x02\x00\x00\x00ab"), nd.ErrUnsupported, "skippable"},
		"nothing":                    {nil, nd.ErrUnsupported, "no frame"},
		"literals":                   {frameOf(window, "\x01x", sound), nil, ""},
		"empty compressed block":     {frameOf(window, "\x01x", "\x02"), nd.ErrCorrupt, "a section"},
		"no sequences section":       {frameOf(window, "\x01x", "\x02\x00"), nd.ErrCorrupt, "a section"},
		"behind the sequences":       {frameOf(window, "\x01x", "\x02\x00\x00\x00"), nd.ErrCorrupt, "bytes behind"},
		"torn raw literals":          {frameOf(window, "\x01x", "\x02\x20ab"), nd.ErrCorrupt, "a section"},
		"torn 20-bit literals":       {frameOf(window, "\x01x", "\x02\x0c\x00"), nd.ErrCorrupt, "a section"},
		"too many literals":          {frameOf(window, "\x01x", "\x02\xfd\xff\xffx\x00"), nd.ErrCorrupt, "too much"},
		"no Huffman table":           {frameOf(window, "\x01x", "\x02\x02\x40\x00\x00"), nd.ErrCorrupt, "Huffman table"},
		"Huffman table of no bytes":  {frameOf(window, "\x01x", "\x02\x12\x80\x00\x00\x01\x00"), nd.ErrCorrupt, "Huffman table"},
		"Huffman table beyond":       {frameOf(window, "\x01x", "\x02\x12\x80\x00\x90\x01\x00"), nd.ErrCorrupt, "Huffman table"},
		"no table to use again":      {frameOf(window, "\x01x", "\x02\x13\x40\x00\x01\x00"), nd.ErrCorrupt, "no block before"},
		"Huffman":                    {frameOf(window, "\x01x", "\x02\x02\xc0\x00\x80\x10\x01\x00"), nd.ErrUnsupported, "bitstreams"}, // of no literals
		"end mark":                   {frameOf(window, "\x01x", "\x02\x12\xc0\x00\x80\x10\x00\x00"), nd.ErrUnsupported, "bitstreams"},
		"four streams":               {frameOf(window, "\x01x", "\x02\x66\x00\x03\x80\x10\x01\x00\x01\x00\x01\x00\x01\x01\x01\x01\x00"), nil, ""},
		"four streams, one empty":    {frameOf(window, "\x01x", "\x02\x66\x00\x03\x80\x10\x00\x00\x01\x00\x01\x00\x01\x01\x01\x01\x00"), nd.ErrUnsupported, "bitstreams"},
		"four streams, one too long": {frameOf(window, "\x01x", "\x02\x66\x00\x03\x80\x10\x01\x00\x01\x00\x02\x00\x01\x01\x01\x01\x00"), nd.ErrUnsupported, "bitstreams"},
		"table to use again":         {frameOf(window, "\x01x", "\x02\x12\xc0\x00\x80\x10\x01\x00", "\x02\x13\x40\x00\x01\x00"), nil, ""},
		"sequences":                  {frameOf(window, "\x02\x08x\x01\x00\x01"), nil, ""},
		"sequences without a stream": {frameOf(window, "\x01x", "\x02\x00\x01\x00"), nd.ErrCorrupt, "no sound header"},
		"sequences, end mark":        {frameOf(window, "\x01x", "\x02\x00\x01\x00\x00"), nd.ErrCorrupt, "no whole bitstream"},
		"sequences, reserved bits":   {frameOf(window, "\x01x", "\x02\x00\x01\x01\x01"), nd.ErrCorrupt, "no sound header"},
		"sequences, no table":        {frameOf(window, "\x01x", "\x02\x00\x01\xC0\x01"), nd.ErrCorrupt, "tables of sequences"},
		"sequences, their table":     {frameOf(window, "\x02\x08x\x01\x00\x01", "\x02\x08x\x01\xFC\x01"), nil, ""},
		"sequences, a code too high": {frameOf(window, "\x01x", "\x02\x00\x01\x40\x24\x01"), nd.ErrCorrupt, "tables of sequences"},
		"sequences, an offset":       {frameOf(window, "\x01x", "\x02\x00\x01\x10\x20\x01"), nd.ErrCorrupt, "tables of sequences"},
		"sequences, a match":         {frameOf(window, "\x01x", "\x02\x00\x01\x04\x35\x01"), nd.ErrCorrupt, "tables of sequences"},
		"sequences, highest codes":   {frameOf(window, "\x02\x08x\x01\x54\x23\x1f\x34\x01"), nil, ""},
		"sequences, torn tables":     {frameOf(window, "\x01x", "\x02\x00\x01\xA8\x23\x1f"), nd.ErrCorrupt, "tables of sequences"},
		"too many sequences":         {frameOf(window, "\x01x", "\x02\x00\xff\x00\x7f\x00\x01"), nd.ErrCorrupt, "too much"},
		"torn count of sequences":    {frameOf(window, "\x01x", "\x02\x00\xff\x00"), nd.ErrCorrupt, "a section"},
	} {
		n := int64(200)
		switch name {
		case "four streams":
			n += 6
		case "table to use again":
			n += 2
		}
		err := nvcomp.CheckZstd(c.frame, n)
		if c.kind == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want an error of kind %v", name, err, c.kind)
			continue
		}
		t.Run(name, func(t *testing.T) { oneLine(t, err, c.kind, c.says) })
	}
}

// A chunk that passes costs no allocation: waves have thousands.
func TestCheckZstdAllocates(t *testing.T) {
	c, err := codec.New("zstd", nil)
	ok(t, err)
	text := levels(300_000, 40)
	frame, err := c.Encode(nil, text)
	ok(t, err)
	if n := testing.AllocsPerRun(100, func() {
		if nvcomp.CheckZstd(frame, int64(len(text))) != nil {
			t.Error("it does not pass")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheckZstd(b *testing.B) {
	c, err := codec.New("zstd", nil)
	ok(b, err)
	text := levels(256<<10, 40)
	frame, err := c.Encode(nil, text)
	ok(b, err)
	for b.Loop() {
		if err := nvcomp.CheckZstd(frame, int64(len(text))); err != nil {
			b.Fatal(err)
		}
	}
}

// verdict holds CheckZstd against a whole decoder: what decodes to the size is not
// corrupt, and what has nothing but headers and passes does decode.
func verdict(t *testing.T, frame []byte, decoded int64, s *codec.Scratch) {
	t.Helper()
	c, err := codec.New("zstd", nil)
	ok(t, err)
	chain, err := codec.NewChain([]codec.Codec{c}, int(decoded))
	ok(t, err)
	_, decoding := chain.Decode(make([]byte, decoded), frame, s)
	check := nvcomp.CheckZstd(frame, decoded)
	if check != nil && !errors.Is(check, nd.ErrCorrupt) && !errors.Is(check, nd.ErrUnsupported) {
		t.Fatalf("an error of another kind: %v", check)
	}
	if decoding == nil && errors.Is(check, nd.ErrCorrupt) {
		t.Fatalf("it decodes to %d bytes, but %v: %x", decoded, check, frame)
	}
}

// Mutations of real chunks are refused, or are what a decoder may be given.
func TestCheckZstdMutations(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := codec.NewScratch()
	defer s.Close()
	refused, all := 0, 0
	for _, sample := range encoded(t) {
		if len(sample.frame) > 3000 {
			continue
		}
		for range 20 {
			frame := bytes.Clone(sample.frame)
			for range 1 + r.IntN(2) {
				frame[r.IntN(min(len(frame), 40))] = byte(r.Uint32())
			}
			verdict(t, frame, sample.decoded, s)
			all++
			if nvcomp.CheckZstd(frame, sample.decoded) != nil {
				refused++
			}
		}
	}
	t.Logf("%d of %d mutations refused", refused, all)
	if refused < all/3 {
		t.Errorf("only %d of %d mutations are refused", refused, all)
	}
}

func FuzzCheckZstd(f *testing.F) {
	for _, sample := range append(encoded(f), golden(f)...) {
		if len(sample.frame) < 1000 {
			f.Add(sample.frame, uint32(sample.decoded))
		}
	}
	s := codec.NewScratch()
	f.Fuzz(func(t *testing.T, frame []byte, decoded uint32) {
		if decoded > 1<<20 {
			return
		}
		verdict(t, frame, int64(decoded), s)
	})
}
