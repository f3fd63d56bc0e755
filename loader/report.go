package loader

import (
	"encoding/json"
	"slices"

	"github.com/headrace/headrace/nd"
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
// on from it. false for all others. With Lanes it counts what was committed in time, as the
// coordinator said so far.
func (l *Loader) Report(epoch int64) (Report, bool) {
	if l.async != nil {
		l.async.settle(l)
	}
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
