// Package sampler says which sample comes when. It is pure arithmetic over
// numbers that are given to it: no I/O, no clock, no goroutine, the same result
// on every machine and every rank.
//
//	Source -> fingerprint, n, blocks ─> Stream ─> Epoch ─> Order
//	position p of an epoch -- Order.At --> sample i -- Source.Sample --> crops
//	step t of a Stream -- Epoch.Positions --> the positions of one rank
//
// An epoch has n positions. Position p holds sample Order.At(p), sample i lies at
// position Order.Where(i). Global batch t is the positions [tG, (t+1)G). The
// number of ranks appears in none of this: it only cuts a batch into parts.
//
// State is a place in a stream, PlanHash what ranks and runs must have in common,
// Digest the proof of what was delivered. docs/order.md has the pictures.
//
// # What is frozen
//
// A stored state must find its place again years later, and other programs may
// compute the order on their own. So the following is a specification; the
// vectors in testdata come from another implementation of it (golden.py). All
// integers are 64 bits, unsigned; in hashed bytes they are little-endian.
// Arithmetic wraps at 2^64 unless "mod" says otherwise. A string or a list in
// hashed bytes is preceded by its length.
//
// Words. words(key) is an endless sequence of integers: the block j = 0, 1, … is
// SHA-256 of "headrace/words/1", a zero byte, the 32 bytes of the key, and j; it
// holds four words.
//
// Draw. below(m) is a uniform integer in [0, m): take the next word x, form the
// 128-bit product x·m, start again if its low half is less than (2^64-m) mod m,
// else give its high half.
//
// Key of an epoch: SHA-256 of "headrace/order/1", a zero byte, the fingerprint
// (a string), n, seed, epoch.
//
// Order for n <= 1024: a table, at first t[i] = i. For i = n-1 down to 1 swap
// t[i] with t[below(i+1)], drawing from words(key). At(p) = t[p].
//
// Order for n > 1024: a mixed-radix Feistel network on a grid of a·b >= n cells,
// a = ceil(sqrt n), b = ceil(n/a). The first 12 words of the key are the round
// keys. Cell x is the pair L = x mod a, R = x div a. Round r = 0 … 11 sets
//
//	L = (L + f(R xor key[r], a)) mod a    for even r
//	R = (R + f(L xor key[r], b)) mod b    for odd r
//
// where f(x, m) is the high half of mix(x)·m, and gives the cell L + aR. At(p)
// applies the network to p, and again to the result as long as that is n or
// more, which happens for less than a/(a·b) of all cells.
//
// mix(x): x ^= x>>30; x *= 0xbf58476d1ce4e5b9; x ^= x>>27;
// x *= 0x94d049bb133111eb; x ^= x>>31.
//
// Order by blocks. The samples are cut into B blocks, in their order: of S each,
// the last may have less, or of sizes that the source gives. The order of blocks
// is the order for n = B with SHA-256 of "headrace/blocks/1", a zero byte and the
// 32 bytes of the epoch's key as its key. Laid end to end in that order, blocks
// wK … wK+K-1 are window w. A window of m samples that begins at position c has at
// position c+i the sample that lies at At(i) of the window, At being the order for
// n = m whose key is SHA-256 of "headrace/window/1", a zero byte, the 32 bytes of
// the epoch's key, and w.
//
// Slices. A global batch of g positions gives replica group r of w, each of R
// ranks in a row, the positions from floor(g·r/w) to floor(g·(r+1)/w) of the batch.
//
// Locality. With V nodes each node has as many groups, and gets as many positions
// of a batch as their slices have together. A home is chosen thus: k0 and k1 are
// the first two words of SHA-256 of "headrace/homes/1", a zero byte and the
// fingerprint (a string); block b scores mix(mix(b + k0) xor mix(v + k1)) at node
// v, and chooses, of the nodes that have room, the one with the highest score. In a
// window of m samples, first all blocks in their shuffled order choose, a node
// having room for a block if it has then no more than ceil(m/V) samples; then those
// without a home, a node having room while it has less than ceil(m/V). In a batch,
// in the order of positions, first each sample goes to the home of its block while
// that has room; then the others to the node that their block chooses. The
// positions of a node, in their order, are cut among its groups in the order of
// ranks by the sizes of their slices.
//
// Plan hash: the first 16 bytes, in hex, of SHA-256 of "headrace/plan/1", a zero
// byte, the fingerprint (a string), n, the global batch, seed, 1 for a shuffled
// order or 0, the name of the tail (a string), the samples of a block, the blocks
// of a window, and the ends of blocks of unequal size (a list); 0 and an empty
// list for what there is not.
//
// Digest of an epoch. K is SHA-256 of "headrace/digest/1", a zero byte and the 32
// bytes of the epoch's key (of an order that is not shuffled too); k0 … k5 are the
// first of words(K). Lane j = 0, 1 of sample s at position p is
//
//	a = mix(mix(p + k[2j]) xor (s + k[2j+1]))
//
// and of the data digest mix(a + mix(c + k[4+j])), c being the content: at first
// the number of fields, then for each field mix(c xor (crc + 2^32·length)), with
// length the bytes of the sample in that field's tensor and crc their CRC-32 (IEEE
// 802.3, as in zlib). A digest is the sums of both lanes, printed as 16 hex digits
// each, and the number of samples.
//
// State: one JSON object with the names format (1), fingerprint, seed, epoch,
// next_position, global, n, shuffle, tail, block, window, plan, as type State says.
//
// Random crops. K is SHA-256 of "headrace/crops/1", a zero byte and the seed of
// the source; k0 and k1 are its first two words. The state of sample i is
// mix(k0 + mix(k1 xor i)), its word t = 0, 1, … is mix(state + (t+1)·
// 0x9e3779b97f4a7c15). From these words are drawn, in this order: the group of
// arrays, as below(groups) for equal weight, or as the group that holds element
// below(total) of all groups laid end to end for weight by volume; for each axis
// of the window, first axis first, its start as below(extent - window + 1); for
// each axis that may be flipped, in the order of the config, below(2).
//
// Grid by shard. The crops of a grid are those without the option; a crop belongs
// to the shard in which the first field's crop begins. They are sorted by group, by
// the shard's coordinates and by the crop's own start, in that order.
//
// Weights as integers. With k bits, weight w becomes w·2^k/largest, the quotient
// rounded as a float64 and the whole to the nearest integer (even at a tie), and at
// least 1 unless w is 0. Shares of a count go to the floor of the exact quota each;
// what is left goes, one each, to the largest remainders, first part first.
//
// Mix. The parts' shares of an epoch are those of Count by their weights (52 bits),
// or by their lengths if no part has a weight. Index i of n belongs to a part as
// follows. Of m parts with n samples together the first floor(m/2) are one half, with
// a samples. Index i is in the second half if floor((i+1)(n-a)/n) is larger than
// b = floor(i(n-a)/n), and there has index b, otherwise it has index i-b in the
// first; and so on until one part is left: index j of part k of share s. In epoch e
// that is place (es+j) mod l in pass (es+j) div l (mod 2^64) through the l samples of
// the part. The key of a pass is SHA-256 of "headrace/mix/1", a zero byte, the 32
// bytes of the key of an epoch (with the part's fingerprint, l, the mix's seed, and
// the pass for the epoch), and k; a place has the sample of the order for n = l with
// that key. A part that differs by epoch is in epoch pass mod 2^63.
//
// Weighted. W is the sum of the weights (32 bits). The offset of epoch e is below(W)
// from words(K), K being SHA-256 of "headrace/weighted/1", a zero byte and the 32
// bytes of the key of an epoch (with the weighted source's own fingerprint, Count for
// n, Seed, e). Index i is the first sample of the source at which the running sum of
// weights is above floor((iW + offset)/Count).
//
// Fingerprints are the first 16 bytes, in hex, of SHA-256 of "headrace/source/1",
// a zero byte, the kind of the source (a string) and its parameters; each type
// lists them.
package sampler
