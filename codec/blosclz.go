package codec

// BloscLZ is the compressor of the FastLZ family that blosc calls blosclz. A
// stream is a list of instructions of one control byte and what follows it:
//
//	000lllll              l+1 literals follow
//	lllooooo [more] code  match of l+2 bytes at distance (o<<8 | code) + 1
//
// A match whose l is 7 is lengthened by bytes up to and including the first one
// below 255. A distance with all 13 bits set is far: two more bytes, high one
// first, are added to 8191. The first control byte is always literals; its upper
// three bits say which variant of the format it is, and are ignored as they are
// by blosc. A stream may end with a match, which c-blosc's decoder refuses and its encoder never writes.
const (
	blosclzNear     = 8191 // the longest near distance, and what far ones start after
	blosclzFarLimit = 1<<16 - 1 + blosclzNear
	blosclzLiterals = 32 // longest run of literals
	blosclzMinMatch = 3
)

// decodeBloscLZ decodes a stream into dst and returns the bytes decoded. ok is
// false if the stream is malformed or does not fit.
func decodeBloscLZ(dst, src []byte) (n int, ok bool) {
	for at := 0; at < len(src); {
		control := int(src[at])
		if at == 0 {
			control &= blosclzLiterals - 1
		}
		at++
		if control < blosclzLiterals {
			run := control + 1
			if run > len(src)-at || run > len(dst)-n {
				return n, false
			}
			n += copy(dst[n:], src[at:at+run])
			at += run
			continue
		}
		length, distance, next, ok := blosclzMatch(src, at, control)
		if !ok || distance > n || length > len(dst)-n {
			return n, false
		}
		repeat(dst[:n+length], n, distance)
		n, at = n+length, next
	}
	return n, true
}

// blosclzMatch reads the match whose control byte lies before at.
func blosclzMatch(src []byte, at, control int) (length, distance, next int, ok bool) {
	length = control>>5 - 1 + blosclzMinMatch
	distance = control & 31 << 8
	for more := length == 6+blosclzMinMatch; more; at++ {
		if at >= len(src) || length > 1<<31-256 {
			return 0, 0, 0, false
		}
		length += int(src[at])
		more = src[at] == 255
	}
	if at >= len(src) {
		return 0, 0, 0, false
	}
	distance |= int(src[at])
	at++
	if distance == blosclzNear {
		if at+2 > len(src) {
			return 0, 0, 0, false
		}
		distance += int(src[at])<<8 | int(src[at+1])
		at += 2
	}
	return length, distance + 1, at, true
}

// repeat fills dst[n:] with copies of the distance bytes before n.
func repeat(dst []byte, n, distance int) {
	from := n - distance
	for n < len(dst) {
		n += copy(dst[n:], dst[from:n])
	}
}

// encodeBloscLZ makes a stream. It is greedy, with one candidate per hash.
func encodeBloscLZ(src []byte) []byte {
	var out []byte
	last := make(map[[4]byte]int) // where four bytes were seen last
	start := 0                    // first literal not yet written
	at := 0
	for at+4 <= len(src) {
		key := [4]byte(src[at:])
		seen, ok := last[key]
		last[key] = at
		// The first instruction is literals, and blosc refuses a stream that ends
		// with a match.
		limit := len(src) - 1
		if !ok || at == 0 || at-seen > blosclzFarLimit || limit-at < 4 {
			at++
			continue
		}
		length := 4
		for at+length < limit && src[seen+length] == src[at+length] {
			length++
		}
		out = appendBloscLZMatch(appendBloscLZLiterals(out, src[start:at]), length, at-seen-1)
		at += length
		start = at
	}
	return appendBloscLZLiterals(out, src[start:])
}

func appendBloscLZLiterals(out, literals []byte) []byte {
	for len(literals) > 0 {
		n := min(len(literals), blosclzLiterals)
		out = append(append(out, byte(n-1)), literals[:n]...)
		literals = literals[n:]
	}
	return out
}

func appendBloscLZMatch(out []byte, length, distance int) []byte {
	near := min(distance, blosclzNear)
	length -= blosclzMinMatch - 1
	if length < 7 {
		out = append(out, byte(length<<5|near>>8))
	} else {
		out = append(out, byte(7<<5|near>>8))
		for length -= 7; length >= 255; length -= 255 {
			out = append(out, 255)
		}
		out = append(out, byte(length))
	}
	out = append(out, byte(near))
	if near == blosclzNear {
		far := distance - blosclzNear
		out = append(out, byte(far>>8), byte(far))
	}
	return out
}
