package sampler

import "fmt"

// PlanHash is a hash, 32 hex digits, of everything that decides which sample is
// in which global batch: ranks whose hashes are equal have the same batches, and a
// state fits a stream that has the hash of the one it was made from. The number
// of ranks, Replicas and who reads what are not in it.
func (s Stream) PlanHash() string {
	h := newHash("headrace/plan/1")
	h.text(s.Fingerprint)
	h.number(s.N)
	h.number(s.Global)
	h.word(s.Seed)
	h.flag(s.Shuffle)
	h.text(s.Tail.String())
	h.number(s.Block)
	h.number(int64(s.Window))
	if s.Blocks != nil {
		h.numbers(s.Blocks.ends)
	} else {
		h.numbers(nil)
	}
	return h.fingerprint()
}

// PlanSummary is PlanHash and, behind it, what it was made of as "name=value", for who must say
// in what two plans differ. The hash decides whether they do: a long fingerprint is cut, and the
// blocks of a source are not in the text. It has at most 255 bytes.
func (s Stream) PlanSummary() string {
	return fmt.Sprintf("%s data=%s n=%d batch=%d seed=%d shuffle=%t tail=%s block=%d window=%d",
		s.PlanHash(), s.Fingerprint[:min(len(s.Fingerprint), 32)], s.N, s.Global, s.Seed, s.Shuffle, s.Tail, s.Block, s.Window)
}
