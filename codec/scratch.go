package codec

// Scratch is the working memory of one worker: decoder states and buffers that
// decoding needs beyond its arguments. Everything in it is made at first use and
// kept, so that decoding allocates nothing once it has seen the largest chunk.
//
// A Scratch serves one goroutine at a time. Chains and codecs are shared between
// workers, scratches are not.
type Scratch struct {
	zstd     *zstdDecoder
	inflater inflater
	block    []byte // one block of a blosc frame before it is unshuffled

	tile []byte // elements in the type that a filter calculates in

	// pipe holds what lies between two stages of a chain: a stage reads one half
	// and writes the other.
	pipe [2][]byte
}

// NewScratch makes an empty scratch.
func NewScratch() *Scratch { return &Scratch{} }

// Close drops all memory that the scratch holds. The scratch may be used again
// and starts anew.
func (s *Scratch) Close() {
	if s.zstd != nil {
		s.zstd.close()
	}
	*s = Scratch{}
}

// grown is buf with length n, or a new buffer where buf has no room. Sizes are
// rounded up, so that chunks which differ a little do not reallocate each time.
func grown(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:n]
	}
	const page = 4096
	return make([]byte, n, (n+page-1)/page*page)
}
