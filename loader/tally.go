package loader

import (
	"errors"
	"slices"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

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
