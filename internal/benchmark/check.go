package benchmark

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/headrace/headrace/internal/plainread"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/sampler"
)

// checkKeep bounds the decoded chunks of all plain readers of a check together.
const checkKeep = 512 << 20

// check runs the timed batches once more in a pipeline of their own and compares
// each byte with a plain read. It is apart from the measurement, which it would
// slow down. A difference is an error that names the element.
func (r *run) check(ctx context.Context, cfg pipeline.Config) (_ *Check, err error) {
	p, err := pipeline.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	c := checker{ctx: ctx, arrays: r.arrays}
	if err := c.open(runtime.GOMAXPROCS(0)); err != nil {
		return nil, err
	}
	_, timed := r.samples()
	_, err = r.stream(ctx, p, "check", timed, c.batch)
	if err != nil {
		return nil, err
	}
	return &Check{OK: true, Samples: c.samples, Bytes: c.bytes}, nil
}

// checker compares batches; each of its workers has plain readers of its own.
type checker struct {
	ctx     context.Context //nolint:containedctx // of one check, which the callback cannot be handed
	arrays  arrays
	readers [][]*plainread.Reader // [worker][array]
	host    []byte                // a batch of a GPU, copied
	samples int64
	bytes   int64
}

func (c *checker) open(workers int) error {
	keep := checkKeep / int64(workers*len(c.arrays))
	for range workers {
		readers := make([]*plainread.Reader, len(c.arrays))
		for i := range c.arrays {
			var err error
			if readers[i], err = c.arrays[i].reader(keep); err != nil {
				return err
			}
		}
		c.readers = append(c.readers, readers)
	}
	return nil
}

// batch compares the samples of a batch, each worker every n-th.
func (c *checker) batch(b *pipeline.Batch) error {
	t, samples := b.Tensor("image"), b.Samples()
	if len(b.Errs()) > 0 || int64(len(samples)) != t.Shape[0] {
		return nd.Errorf(nd.ErrBug, "check: a batch of %d samples has %d", len(samples), t.Shape[0])
	}
	data := t.Data
	if t.Address != 0 {
		c.host = slices.Grow(c.host[:0], int(b.Bytes(0)))[:b.Bytes(0)]
		data = c.host
		if err := b.CopyTo(data, 0); err != nil {
			return err
		}
	}
	size := len(data) / max(len(samples), 1)
	errs := make([]error, len(c.readers))
	var wait sync.WaitGroup
	for w := range c.readers {
		wait.Go(func() {
			for i := w; i < len(samples) && errs[w] == nil; i += len(c.readers) {
				errs[w] = c.sample(w, samples[i], t.DType, data[i*size:(i+1)*size])
			}
		})
	}
	wait.Wait()
	c.samples += int64(len(samples))
	c.bytes += int64(len(data))
	return errors.Join(errs...)
}

func (c *checker) sample(worker int, s sampler.Sample, dtype nd.DType, got []byte) error {
	crop := s.Crops[0]
	want, err := c.readers[worker][crop.Array].Read(c.ctx, crop.Box, dtype)
	if err != nil {
		return fmt.Errorf("check: plain read of sample %d: %w", s.ID, err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	element := at / dtype.Size()
	return nd.Errorf(nd.ErrBug, "check: sample %d, array %s, box %v: element %d (of %v) differs from a plain read, the first of perhaps more",
		s.ID, c.arrays[crop.Array].ref.URI, crop.Box, element, crop.Box.Shape())
}
