package benchmark

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headrace/headrace/codec"
)

const (
	// bareEncoded bounds the stored chunks that are held for the bare decoder.
	bareEncoded = 192 << 20
	bareTime    = 1500 * time.Millisecond
	bareKeep    = 1 // bytes of decoded chunks for a plain reader that decodes none
)

// storedChunk is one chunk as it lies in the store.
type storedChunk struct {
	chain *codec.Chain
	data  []byte
	size  int64
}

// bare measures what the codecs do with nothing around them: the chunks of the
// timed samples, from memory, decoded again and again by as many goroutines as
// the engine has workers.
func (r *run) bare(ctx context.Context, result *Result) error {
	chunks, err := r.storedChunks(ctx)
	if err != nil || len(chunks) == 0 {
		return err
	}
	r.options.say("bare decoder", 0, 0)
	bytes, busy, wall, err := decodeAll(ctx, chunks, result.Config.Workers, cmp.Or(r.options.BareTime, bareTime))
	if err != nil {
		return err
	}
	rate := float64(bytes) / 1e9
	result.BareGBPerS = rate / wall.Seconds()
	result.EndToEndVsBare = result.DecodedGBPerS / result.BareGBPerS
	for _, s := range result.Stages {
		if s.Name == "decode" && s.BusyMS > 0 {
			stage := float64(s.OutBytes) / 1e9 / (s.BusyMS / 1e3)
			result.DecodeVsBare = stage / (rate / busy.Seconds())
		}
	}
	return nil
}

// storedChunks reads the distinct chunks of the timed samples, in their order, up
// to bareEncoded bytes. Raw chunks have no decoder.
func (r *run) storedChunks(ctx context.Context) ([]storedChunk, error) {
	_, timed := r.samples()
	var chunks []storedChunk
	total, seen := 0, map[[2]int64]bool{}
	for _, s := range timed {
		crop := s.Crops[0]
		a := &r.arrays[crop.Array]
		if leaf := a.meta.Leaf(); len(leaf.Bytes)+len(leaf.Filters) == 0 {
			continue
		}
		reader, err := a.reader(bareKeep)
		if err != nil {
			return nil, err
		}
		grid := a.meta.GridShape(len(a.meta.Levels) - 1)
		for coord := range a.meta.Chunks(crop.Box) {
			key := [2]int64{int64(crop.Array), linear(grid, coord)}
			if seen[key] || total > bareEncoded {
				continue
			}
			seen[key] = true
			data, err := reader.Encoded(ctx, coord)
			if err != nil {
				return nil, err
			}
			if data != nil {
				chunks = append(chunks, storedChunk{reader.Chain(), data, a.meta.ChunkBytes()})
				total += len(data)
			}
		}
		if total > bareEncoded {
			break
		}
	}
	return chunks, nil
}

func linear(shape, at []int64) (n int64) {
	for i, x := range at {
		n = n*shape[i] + x
	}
	return n
}

// decodeAll decodes chunks in turn for so long: the bytes, the time summed over
// the goroutines and the wall time.
func decodeAll(ctx context.Context, chunks []storedChunk, workers int, long time.Duration) (bytes int64, busy, wall time.Duration, err error) {
	var wait sync.WaitGroup
	counts, times, errs := make([]int64, workers), make([]time.Duration, workers), make([]error, workers)
	began := time.Now()
	for w := range workers {
		wait.Go(func() {
			counts[w], errs[w] = decodeFrom(ctx, chunks, w*len(chunks)/workers, began.Add(long))
			times[w] = time.Since(began)
		})
	}
	wait.Wait()
	wall = time.Since(began)
	for w := range workers {
		bytes += counts[w]
		busy += times[w]
	}
	return bytes, busy, wall, errors.Join(append(errs, ctx.Err())...)
}

// decodeFrom decodes chunks from number first on, round and round, until the time
// has come.
func decodeFrom(ctx context.Context, chunks []storedChunk, first int, until time.Time) (bytes int64, err error) {
	room := int64(0)
	for _, c := range chunks {
		room = max(room, c.size)
	}
	dst, scratch := make([]byte, room), codec.NewScratch()
	defer scratch.Close()
	for i := first; time.Now().Before(until) && ctx.Err() == nil; i++ {
		c := &chunks[i%len(chunks)]
		if _, err := c.chain.Decode(dst[:c.size], c.data, scratch); err != nil {
			return bytes, err
		}
		bytes += c.size
	}
	return bytes, nil
}
