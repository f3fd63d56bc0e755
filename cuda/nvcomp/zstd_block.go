package nvcomp

// tables says which tables earlier blocks of a frame have left for later ones.
type tables struct{ huffman, sequences bool }

// Bounds of symbols: a table of one symbol has it as a byte.
const (
	maxLiteralLength = 35
	maxMatchLength   = 52
	maxOffset        = 31
	shortestMatch    = 3
)

// checkCompressed checks the sections of a Compressed_Block (3.1.1.3); at is where
// its header is, for messages.
func checkCompressed(b []byte, at int, limit int64, t *tables) (extent, error) {
	literals, end, why := checkLiterals(b, t)
	sequences := 0
	if why == "" {
		sequences, why = checkSequences(b[end:], t)
	}
	decoded := exactly(int64(literals))
	if sequences > 0 {
		decoded = extent{int64(literals) + shortestMatch*int64(sequences), limit}
	}
	if why == "" && decoded.least > limit {
		why = "it decodes to too much"
	}
	switch why {
	case "":
		return decoded, nil
	case looseStreams:
		return extent{}, unsupported("compressed block at byte %d: %s", at, why)
	default:
		return extent{}, corrupt("compressed block at byte %d: %s", at, why)
	}
}

const (
	tornSection = "a section goes beyond it"
	// looseStreams is corrupt by the RFC, but libzstd has a fast path that does not
	// look for the end marks, so it is the host that says.
	looseStreams = "its literals are no whole bitstreams"
)

// checkLiterals checks a Literals_Section (3.1.1.3.1) and gives how many literals
// it has and where it ends, or why it is corrupt.
func checkLiterals(b []byte, t *tables) (size, end int, why string) {
	if len(b) == 0 {
		return 0, 0, tornSection
	}
	kind, form := b[0]&3, b[0]>>2&3
	if kind >= 2 {
		return checkHuffman(b, kind == 3, form, t)
	}
	switch form {
	case 1:
		end = 2
	case 3:
		end = 3
	default:
		end = 1
	}
	if len(b) < end {
		return 0, 0, tornSection
	}
	size = int(littleEndian(b[:end]) >> 4)
	if end == 1 {
		size = int(b[0] >> 3)
	}
	if kind == 1 {
		end++
	} else {
		end += size
	}
	if len(b) < end {
		return 0, 0, tornSection
	}
	return size, end, ""
}

// checkHuffman is checkLiterals for literals under a Huffman code, whose table
// (3.1.1.3.1.3, 4.2.1) comes first unless that of an earlier block is used again.
func checkHuffman(b []byte, again bool, form byte, t *tables) (size, end int, why string) {
	bits, start := 10, 3
	if form >= 2 {
		bits, start = 4*int(form)+6, int(form)+2
	}
	if len(b) < start {
		return 0, 0, tornSection
	}
	head := littleEndian(b[:start]) >> 4
	size = int(head & (1<<bits - 1))
	end = start + int(head>>bits)
	if len(b) < end {
		return 0, 0, tornSection
	}
	body := b[start:end]
	if !again {
		table := tableBytes(body)
		if table > len(body) {
			return 0, 0, "no whole Huffman table"
		}
		body = body[table:]
		t.huffman = true
	} else if !t.huffman {
		return 0, 0, "it uses a Huffman table that no block before it has"
	}
	if size == 0 || !checkStreams(body, form != 0, size) {
		return 0, 0, looseStreams
	}
	return size, end, ""
}

// tableBytes is the size of a Huffman table description at the start of b, more
// than there is if none is.
func tableBytes(b []byte) int {
	if len(b) == 0 || b[0] == 0 {
		return len(b) + 1
	}
	if b[0] >= 128 { // weights of four bits each
		return 1 + (int(b[0])-127+1)/2
	}
	return 1 + int(b[0])
}

// checkStreams checks the one or four bitstreams of size literals, four behind a
// table of the lengths of three (3.1.1.3.1.6). A bitstream ends with the highest
// one bit of its last byte.
func checkStreams(b []byte, four bool, size int) bool {
	if !four {
		return len(b) > 0 && b[len(b)-1] != 0
	}
	if size < 6 || len(b) < 6 {
		return false
	}
	lengths, b := b[:6], b[6:]
	for i := range 3 {
		n := int(littleEndian(lengths[2*i : 2*i+2]))
		if n == 0 || n >= len(b) || b[n-1] == 0 {
			return false
		}
		b = b[n:]
	}
	return b[len(b)-1] != 0
}

// checkSequences checks a Sequences_Section (3.1.1.3.2), which fills the block's
// rest, and gives how many sequences it has, or why it is corrupt.
func checkSequences(b []byte, t *tables) (n int, why string) {
	n, at := sequenceCount(b)
	switch {
	case at > len(b):
		return 0, tornSection
	case n == 0 && at < len(b):
		return 0, "bytes behind its end"
	case n == 0:
		return 0, ""
	case len(b) < at+2 || b[at]&3 != 0:
		return 0, "it has no sound header of sequences"
	}
	if !checkModes(b[at:], t) {
		return 0, "its tables of sequences are not sound"
	}
	if b[len(b)-1] == 0 {
		return 0, "its sequences are no whole bitstream"
	}
	t.sequences = true
	return n, ""
}

// sequenceCount reads Number_of_Sequences and gives its end, behind b if it is torn.
func sequenceCount(b []byte) (n, end int) {
	switch {
	case len(b) == 0:
		return 0, 1
	case b[0] < 128:
		return int(b[0]), 1
	case b[0] < 255 && len(b) >= 2:
		return int(b[0]-128)<<8 + int(b[1]), 2
	case b[0] == 255 && len(b) >= 3:
		return int(b[1]) + int(b[2])<<8 + 0x7F00, 3
	}
	return 0, 4
}

// checkModes checks the byte of Symbol_Compression_Modes and what can be found of
// the tables behind it: the first compressed one has an end that only reading it
// would tell, but each table and the bitstream have a byte at least.
func checkModes(b []byte, t *tables) bool {
	at, known := 1, true
	for _, symbol := range [...]struct {
		shift int
		most  byte
	}{{6, maxLiteralLength}, {4, maxOffset}, {2, maxMatchLength}} {
		switch b[0] >> symbol.shift & 3 {
		case 1:
			if known && (at >= len(b) || b[at] > symbol.most) {
				return false
			}
			at++
		case 2:
			known = false
			at++
		case 3:
			if !t.sequences {
				return false
			}
		}
	}
	return at < len(b)
}
