package loader

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// Report is what a loader returned of an epoch. It counts batches that Next has
// returned, never those under way. Reports of all ranks, and of the runs before and
// after a checkpoint, add up by Merge; an epoch is proven when the merged Coverage is
// the epoch's own digest, which anyone computes from the plan (Loader.Expected).
type Report struct {
	Epoch int64
	Of    int64 // positions of the whole epoch

	// Delivered samples are in batches, with values of their own or, those that are
	// also Filled, with the fill value of their arrays. Skipped ones were left out, or
	// were in a batch that failed.
	Delivered, Skipped, Filled int64

	// Coverage is of all positions that are done with: the skipped ones too.
	Coverage sampler.Digest
	// Data is of the bytes of the delivered samples, with Config.DataDigest.
	Data sampler.DataDigest

	// Replica is the place of the rank in its group: those that are not the first
	// have what the first has, and do not count once more in Merge.
	Replica int
}

// Complete reports whether each position of the epoch is done with, as far as
// numbers tell. That each came once is told by Coverage.
func (r Report) Complete() bool { return r.Coverage.Count == r.Of }

// Merge is the sum of reports of one epoch.
func Merge(reports ...Report) (Report, error) {
	var sum Report
	for i, r := range reports {
		if i == 0 {
			sum = Report{Epoch: r.Epoch, Of: r.Of}
		}
		if r.Epoch != sum.Epoch || r.Of != sum.Of {
			return Report{}, nd.Errorf(nd.ErrConfig, "reports of epoch %d with %d positions and of epoch %d with %d do not add up", sum.Epoch, sum.Of, r.Epoch, r.Of)
		}
		if r.Replica > 0 {
			continue
		}
		sum.Delivered += r.Delivered
		sum.Skipped += r.Skipped
		sum.Filled += r.Filled
		sum.Coverage = sum.Coverage.Merge(r.Coverage)
		sum.Data = sum.Data.Merge(r.Data)
	}
	return sum, nil
}

// reportJSON is a report in JSON: the digests as `headrace order verify` writes them.
type reportJSON struct {
	Epoch      int64  `json:"epoch"`
	Of         int64  `json:"of"`
	Delivered  int64  `json:"delivered"`
	Skipped    int64  `json:"skipped"`
	Filled     int64  `json:"filled"`
	Count      int64  `json:"count"`
	Digest     string `json:"digest"`
	DataCount  int64  `json:"data_count"`
	DataDigest string `json:"data_digest"`
	Replica    int    `json:"replica"`
}

// MarshalJSON writes the report in one flat object.
func (r Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(reportJSON{
		r.Epoch, r.Of, r.Delivered, r.Skipped, r.Filled,
		r.Coverage.Count, r.Coverage.String(), r.Data.Count, r.Data.String(), r.Replica,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Report) UnmarshalJSON(doc []byte) error {
	var j reportJSON
	if err := json.Unmarshal(doc, &j); err != nil {
		return nd.Errorf(nd.ErrConfig, "report: %w", err)
	}
	coverage, err := sampler.ParseDigest(j.Digest, j.Count)
	if err != nil {
		return err
	}
	data, err := sampler.ParseDigest(j.DataDigest, j.DataCount)
	if err != nil {
		return err
	}
	*r = Report{j.Epoch, j.Of, j.Delivered, j.Skipped, j.Filled, coverage, sampler.DataDigest(data), j.Replica}
	return nil
}

// Expected is the digest that the merged reports of a whole epoch must have, computed
// from the plan alone. It takes tens of nanoseconds a sample.
func (l *Loader) Expected(epoch int64) sampler.Digest {
	e := l.Stream().Epoch(epoch)
	return e.Digest(e.Delivered())
}

// Report is that of an epoch: the current one, or the one before it where Next went
// on from it. false for all others.
func (l *Loader) Report(epoch int64) (Report, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.mu.reports {
		if r.Epoch == epoch {
			return r, true
		}
	}
	return Report{}, false
}

// reports are those of the last two epochs, the newer one last.
type reports []Report

// put adds a report, or replaces that of the same epoch.
func (r *reports) put(report Report) {
	at := slices.IndexFunc(*r, func(known Report) bool { return known.Epoch == report.Epoch })
	if at >= 0 {
		*r = slices.Delete(*r, at, at+1)
	}
	*r = append(*r, report)
	if len(*r) > 2 {
		*r = slices.Delete(*r, 0, 1)
	}
}

// maxRedo is the number of steps that Redo can go back: many times what a trainer
// has under way.
const maxRedo = 256

// tally counts the current epoch. It remembers the report before each of the last
// steps, so that a step that is returned again is not counted twice.
type tally struct {
	l      *Loader
	epoch  *sampler.Epoch
	key    sampler.DigestKey
	report Report
	past   []moment
	host   []byte // a batch of a GPU, for the data digest
}

// moment is a step that was returned, and the report before it.
type moment struct {
	at     sampler.Resume
	report Report
}

// begin begins an epoch.
func (t *tally) begin(at sampler.Resume, l *Loader) {
	t.l, t.epoch, t.key = l, l.ahead.epoch, at.Stream.DigestKey(at.Epoch)
	if t.epoch.Number != at.Epoch { // only the end of this epoch is left
		t.epoch = at.Stream.Epoch(at.Epoch)
	}
	t.report = Report{Epoch: at.Epoch, Of: at.Stream.Delivered().Len(), Replica: l.id.Rank % max(1, at.Stream.Replicas)}
	t.past = t.past[:0]
}

// count counts the batch of a step; nil is one that failed.
func (t *tally) count(at sampler.Resume, b *pipeline.Batch) (Report, error) {
	if len(t.past) == maxRedo {
		t.past = slices.Delete(t.past, 0, maxRedo/2)
	}
	t.past = append(t.past, moment{at, t.report})
	r, order := &t.report, t.epoch.Order()
	mine := t.epoch.Part(at.Rest(), t.l.id.Rank, t.l.id.World)
	for _, p := range mine {
		t.key.Add(&r.Coverage, p, order.At(p))
	}
	if b == nil {
		r.Skipped += int64(len(mine))
		return t.report, nil
	}
	here := samplesOf(b)
	r.Delivered += here
	r.Skipped += int64(len(mine)) - here
	if t.l.config.OnError == pipeline.Fill && !t.l.blank {
		r.Filled += int64(len(failed(b)))
	}
	if !t.l.data {
		return t.report, nil
	}
	err := t.countData(mine, b)
	return t.report, err
}

// countData adds the bytes of a batch. Its rows are in the order of the positions;
// what was skipped is not among them.
func (t *tally) countData(mine []int64, b *pipeline.Batch) error {
	fields, err := t.fields(b)
	if err != nil {
		return err
	}
	rows, order := b.Samples(), t.epoch.Order()
	at := 0
	one := make([][]byte, len(fields))
	for row := range rows {
		if rows[row].ID == Padding {
			continue
		}
		for order.At(mine[at]) != rows[row].ID {
			at++
		}
		for f, data := range fields {
			size := len(data) / len(rows)
			one[f] = data[row*size : (row+1)*size]
		}
		t.key.AddData(&t.report.Data, mine[at], rows[row].ID, sampler.Content(one...))
		at++
	}
	return nil
}

// fields is the bytes of the batch's tensors, on the host.
func (t *tally) fields(b *pipeline.Batch) ([][]byte, error) {
	all := make([][]byte, len(b.Fields()))
	if _, gpu := b.GPU(); !gpu {
		for i := range all {
			all[i] = b.TensorAt(i).Data
		}
		return all, nil
	}
	total := int64(0)
	for i := range all {
		total += b.Bytes(i)
	}
	t.host = slices.Grow(t.host[:0], int(total))[:total]
	rest := t.host
	for i := range all {
		all[i], rest = rest[:b.Bytes(i)], rest[b.Bytes(i):]
		if err := b.CopyTo(all[i], i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// samplesOf is the number of samples of a batch; padding is none.
func samplesOf(b *pipeline.Batch) (n int64) {
	for i := range b.Samples() {
		if b.Samples()[i].ID != Padding {
			n++
		}
	}
	return n
}

// before finds the moment before a step.
func (t *tally) before(at sampler.Resume, step int64) (moment, error) {
	for _, m := range slices.Backward(t.past) {
		if m.at.Step == step {
			return m, nil
		}
	}
	return moment{}, nd.Errorf(nd.ErrConfig, "step %d of epoch %d cannot be redone: this loader is at step %d and knows the %d steps before it; load a state to go elsewhere",
		step, at.Epoch, at.Step, len(t.past))
}

// takeBack forgets a step and those after it.
func (t *tally) takeBack(m moment) {
	t.report = m.report
	at := slices.IndexFunc(t.past, func(p moment) bool { return p.at.Step == m.at.Step })
	t.past = t.past[:at]
}

// failed lists the samples of a batch that could not be read; padding is none.
func failed(b *pipeline.Batch) (ids []int64) {
	for _, err := range b.Errs() {
		if bad, ok := errors.AsType[*pipeline.SampleError](err); ok && bad.ID != Padding {
			ids = append(ids, bad.ID)
		}
	}
	return ids
}

// blank makes padding of the samples of a batch that could not be read.
func blank(b *pipeline.Batch) {
	for _, id := range failed(b) {
		at := slices.IndexFunc(b.Samples(), func(s sampler.Sample) bool { return s.ID == id })
		if at >= 0 {
			b.Samples()[at].ID = Padding
		}
	}
}
