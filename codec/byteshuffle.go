package codec

// shuffleCodec is numcodecs' shuffle: the byte planes of all elements one after
// another.
type shuffleCodec struct{ size int }

func newShuffle(set settings) (Codec, error) {
	size := 4
	if _, err := set.get("elementsize", &size); err != nil {
		return nil, err
	}
	return shuffleCodec{size}, nil
}

func (shuffleCodec) Name() string { return "shuffle" }

func (shuffleCodec) encodedSize(decoded int) int { return decoded }

// Decode returns src where elements are single bytes.
func (c shuffleCodec) Decode(dst, src []byte, _ *Scratch) ([]byte, error) {
	if len(src) > len(dst) {
		return nil, tooLong("shuffle", len(dst))
	}
	if c.size < 2 {
		return src, nil
	}
	dst = dst[:len(src)]
	Unshuffle(dst, src, c.size)
	return dst, nil
}

func (c shuffleCodec) Encode(dst, src []byte) ([]byte, error) {
	out := make([]byte, len(src))
	Shuffle(out, src, c.size)
	return append(dst, out...), nil
}
