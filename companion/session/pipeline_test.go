package session

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/sampler"
)

// writeArray writes a zarr v3 array of 16 bytes, base, base+1, … and gives its path.
func writeArray(t *testing.T, base byte) string {
	t.Helper()
	dir := t.TempDir()
	const doc = `{"zarr_format": 3, "node_type": "array", "shape": [16], "data_type": "uint8",
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16]}},
		"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
		"codecs": [{"name": "bytes"}], "fill_value": 0}`
	data := make([]byte, 16)
	for i := range data {
		data[i] = base + byte(i)
	}
	for name, content := range map[string][]byte{"zarr.json": []byte(doc), "c.0": data} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// writeLarge writes an array like writeArray's whose chunk decodes to so many MiB:
// more than an engine has room for unless it was opened with it.
func writeLarge(t *testing.T, base byte, mib int) string {
	t.Helper()
	dir := writeArray(t, base)
	doc := fmt.Sprintf(`{"zarr_format": 3, "node_type": "array", "shape": [16], "data_type": "uint8",
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [%d]}},
		"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
		"codecs": [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}], "fill_value": 0}`, mib<<20)
	data, err := os.ReadFile(filepath.Join(dir, "c.0"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(append(data, make([]byte, mib<<20-len(data))...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"zarr.json": []byte(doc), "c.0": packed.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// served is a pipeline behind a handle, with what tests push into it.
type served struct {
	l      *Session
	handle uint64
	p      *pipelineObject
}

func testRequest(arrays ...string) *request {
	feed := make([]int, len(arrays))
	for i := range feed {
		feed[i] = i
	}
	return &request{
		Open: "pipeline", Fields: []field{{Name: "x", Shape: []int{2}, Pad: "error"}}, BatchSize: 2,
		OnError: "raise", Reuse: "window", DecodedBytes: 1 << 20, Verify: true,
		Arrays: arrayList{URIs: arrays, Feeds: [][]int{feed}},
	}
}

// wireRequest is testRequest over one array, as a client sends it.
func wireRequest(t *testing.T) []byte {
	t.Helper()
	return fmt.Appendf(nil, `{"open": "pipeline", "fields": [{"name": "x", "shape": [2], "pad": "error", "pad_value": "0"}],
		"batch_size": 2, "on_error": "raise", "reuse": "window", "decoded_bytes": 1048576, "verify": true,
		"arrays": {"uris": [%q], "feeds": [[0]]}}`, writeArray(t, 100))
}

// openTest opens a pipeline over one array and pushes batches that never end
// before the test does: rounds times what the look-ahead holds.
func openTest(t *testing.T, l *Session, rounds int) *served {
	t.Helper()
	handle, _, err := l.Open(t.Context(), wireRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := lookup[*pipelineObject](l, handle)
	if err != nil {
		t.Fatal(err)
	}
	o := &served{l, handle, p}
	for i := range 2 * rounds {
		if st, err := o.p.push(words(0, i), 2); err != nil {
			t.Fatal(err)
		} else if st == Again {
			break
		}
	}
	return o
}

// words is a batch of two samples of an array: the elements i and i+1, i+1 and i+2.
func words(array, i int) []int64 {
	a, at := int64(array), int64(i%8)
	return []int64{int64(2 * i), a, 0, 1, at, at + 2, int64(2*i + 1), a, 0, 1, at + 1, at + 3}
}

// next takes a batch, pushing more as there is room, and gives its token.
func (o *served) next(t *testing.T) (token uint64) {
	t.Helper()
	for i := 0; ; i++ {
		if st, err := o.p.push(words(0, i), 2); err != nil {
			t.Fatal(err)
		} else if st == Again {
			break
		}
	}
	st, err := o.l.Next(t.Context(), o.handle, patience, func(_ Delivery, got uint64) error {
		token = got
		return nil
	})
	if st != Done || err != nil {
		t.Fatalf("next: %v %v", st, err)
	}
	return token
}

func (o *served) close(t *testing.T) {
	t.Helper()
	closeIt, err := o.l.Detach(o.handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeIt(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// take is the ids and bytes of the next batch.
func take(t *testing.T, o *pipelineObject) (ids []int64, data []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := o.nextBatch(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range d.Batch.Samples() {
		ids = append(ids, s.ID)
	}
	data = slices.Clone(d.Batch.TensorAt(0).Data)
	return ids, data, d.Batch.Release(nil)
}

// Arrays that fit are added to the engine that runs.
func TestLateArraysJoinTheEngine(t *testing.T) {
	paths := []string{writeArray(t, 0), writeArray(t, 50)}
	o, err := openPipeline(t.Context(), testRequest(paths[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.grow(t.Context(), testRequest(paths...).Arrays); err != nil {
		t.Fatal(err)
	}
	if st, err := o.push(words(1, 1), 2); st != Done || err != nil {
		t.Fatal(st, err)
	}
	if _, data, err := take(t, o); err != nil || data[0] != 51 {
		t.Errorf("got %v, %v", data, err)
	}
	if n := len(o.engines); n != 1 {
		t.Errorf("%d engines, want 1", n)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// Arrays that are named late and do not fit open further engines. Batches come in the order of
// the pushes all the same, an asked-for end comes where it was asked for, and no
// other end is seen.
func TestEnginesFollowEachOther(t *testing.T) {
	paths := []string{writeArray(t, 0), writeLarge(t, 50, 3), writeLarge(t, 100, 4)}
	o, err := openPipeline(t.Context(), testRequest())
	if err != nil {
		t.Fatal(err)
	}
	push := func(array, i int) {
		t.Helper()
		if st, err := o.push(words(array, i), 2); st != Done || err != nil {
			t.Fatalf("push: %v %v", st, err)
		}
	}
	grow := func(n int) {
		t.Helper()
		if err := o.grow(t.Context(), testRequest(paths[:n]...).Arrays); err != nil {
			t.Fatal(err)
		}
	}
	finish := func() {
		t.Helper()
		if err := o.finish(); err != nil {
			t.Fatal(err)
		}
	}
	finish() // before there is an engine
	grow(1)
	push(0, 0)
	finish()
	push(0, 1)
	grow(2)
	push(1, 2)
	push(0, 3)
	grow(3)
	finish()
	push(2, 4)
	finish()
	f := func(array, i int) {
		t.Helper()
		ids, data, err := take(t, o)
		first := byte(50*array + i%8)
		if want := []byte{first, first + 1, first + 1, first + 2}; err != nil || !slices.Equal(data, want) || ids[0] != int64(2*i) {
			t.Errorf("batch %d: ids %v, data %v, %v; want data %v", i, ids, data, err, want)
		}
	}
	end := func() {
		t.Helper()
		if ids, _, err := take(t, o); !errors.Is(err, io.EOF) {
			t.Errorf("got %v %v, want the end", ids, err)
		}
	}
	end()
	f(0, 0)
	end()
	f(0, 1)
	f(1, 2)
	f(0, 3)
	end()
	f(2, 4)
	end()
	if n := len(o.engines); n != 1 {
		t.Errorf("%d engines are left, want 1", n)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// An array that cannot be opened changes nothing.
func TestGrowThatFails(t *testing.T) {
	good := writeArray(t, 0)
	o, err := openPipeline(t.Context(), testRequest(good))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.grow(t.Context(), testRequest(good, filepath.Join(good, "nope")).Arrays); !errors.Is(err, nd.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if st, err := o.push(words(0, 5), 2); st != Done || err != nil {
		t.Fatal(st, err)
	}
	if ids, _, err := take(t, o); err != nil || ids[0] != 10 {
		t.Errorf("got %v %v", ids, err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

func TestDiscardKeepsTheLastEngine(t *testing.T) {
	a, b := writeArray(t, 0), writeLarge(t, 50, 3)
	o, err := openPipeline(t.Context(), testRequest(a))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := o.push(words(0, i), 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.grow(t.Context(), testRequest(a, b).Arrays); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.finish(), o.discard(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := o.push(words(1, 9), 2); err != nil {
		t.Fatal(err)
	}
	if ids, _, err := take(t, o); err != nil || ids[0] != 18 {
		t.Errorf("got %v %v", ids, err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// Several takers see each batch once while engines change under them, and all of
// them wake at close.
func TestManyTakers(t *testing.T) {
	paths := make([]string, 5)
	for i := range paths {
		paths[i] = writeLarge(t, byte(20*i), 3+i)
	}
	o, err := openPipeline(t.Context(), testRequest(paths[0]))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[int64]int{}
	got := make(chan struct{}, 100)
	var takers sync.WaitGroup
	for range 4 {
		takers.Go(func() {
			for {
				d, err := o.nextBatch(context.Background())
				if errors.Is(err, nd.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[d.Batch.Samples()[0].ID]++
				mu.Unlock()
				if err := d.Batch.Release(nil); err != nil {
					t.Error(err)
				}
				got <- struct{}{}
			}
		})
	}
	const batches = 40
	for i := range batches {
		if i%8 == 0 && i > 0 {
			if err := o.grow(t.Context(), testRequest(paths[:1+i/8]...).Arrays); err != nil {
				t.Fatal(err)
			}
		}
		for {
			st, err := o.push(words(i/8, i), 2)
			if err != nil {
				t.Fatal(err)
			}
			if st == Done {
				break
			}
			<-got // there is room after a batch
			got <- struct{}{}
		}
	}
	for range batches {
		select {
		case <-got:
		case <-time.After(patience):
			t.Fatal("batches are missing")
		}
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
	takers.Wait()
	if len(seen) != batches {
		t.Errorf("%d distinct batches, want %d: %v", len(seen), batches, seen)
	}
}

// Whatever numbers come over the boundary, they are a batch or an error.
func FuzzSamplesOf(f *testing.F) {
	f.Add([]byte{7, 0, 0, 1, 2, 4}, 1, 1)
	f.Add([]byte{7, 0, 0, 255, 2, 4}, 1, 1)
	f.Add([]byte{}, 3, 2)
	f.Fuzz(func(t *testing.T, raw []byte, samples, fields int) {
		words := make([]int64, len(raw))
		for i, b := range raw {
			words[i] = int64(int8(b))
		}
		batch, err := samplesOf(words, samples&15, fields&3)
		if err != nil {
			if !errors.Is(err, nd.ErrBug) {
				t.Errorf("got %v", err)
			}
			return
		}
		var back []int64
		for _, s := range batch {
			back = append(back, s.ID)
			for _, c := range s.Crops {
				back = append(back, int64(c.Array), int64(int32(c.Flip)), int64(len(c.Box)))
				for _, span := range c.Box {
					back = append(back, span.Start, span.Stop)
				}
			}
		}
		if !slices.Equal(back, words) {
			t.Errorf("%v became %v", words, back)
		}
	})
}

func TestRequestFields(t *testing.T) {
	var r request
	text := `{"open": "pipeline", "batch_size": 3, "on_error": "skip", "reuse": "cache", "verify": false, "fields": [
		{"name": "x", "shape": [4], "dtype": "bf16", "axes": null, "pad": "fill", "pad_value": "nan", "scale": [2, 3], "offset": 0.5},
		{"name": "y", "shape": [], "dtype": "", "axes": [], "pad": "error", "pad_value": "0.0", "scale": null, "offset": null}]}`
	if err := Parse([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	arrays := r.arrayRefs([]string{"a", "b", "c"})
	c, err := r.config(arrays, [][]int{{2, 0}, {1}})
	if err != nil {
		t.Fatal(err)
	}
	x := c.Fields[0]
	if x.DType != nd.BF16 || x.PadValue == x.PadValue || !reflect.DeepEqual(x.Scale, []float64{3, 1, 2}) || !reflect.DeepEqual(x.Offset, []float64{0.5}) {
		t.Errorf("field x is %+v", x)
	}
	if y := c.Fields[1]; y.DType != nd.Invalid || y.Scale != nil || !reflect.DeepEqual(y.Arrays, []int{1}) {
		t.Errorf("field y is %+v", y)
	}
	if !c.NoVerify || c.OnError.String() != "skip" || c.Reuse.String() != "cache" {
		t.Errorf("config is %+v", c)
	}
	if _, err := r.config(arrays, [][]int{{0}, {1}}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("two scales for one array: %v", err)
	}
	for _, bad := range []string{"", "[]", `{"novel": 1}`, `{"fields": [{"pad_value": "x"}]}`, `{"fields": [{"scale": "x"}]}`} {
		if err := Parse([]byte(bad), &r); !errors.Is(err, nd.ErrBug) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSourcesAreResolved(t *testing.T) {
	a, b := writeArray(t, 0), writeArray(t, 50)
	spec := &sourceSpec{Kind: "grid", Tail: "drop", Fields: []sourceSpan{
		{Name: "x", Arrays: []string{a, b}, Shape: []int64{4}}, {Name: "y", Arrays: []string{b, b}, Shape: []int64{4}},
	}}
	o, err := openSource(t.Context(), &request{Source: spec})
	if err != nil {
		t.Fatal(err)
	}
	if o.source.Len() != 8 || !reflect.DeepEqual(o.feeds, [][]int{{0, 1}, {1, 1}}) || len(o.arrays) != 2 {
		t.Errorf("%d samples of %v, feeds %v", o.source.Len(), o.arrays, o.feeds)
	}
	want := sampler.Sample{ID: 5, Crops: []sampler.Crop{{Array: 1, Box: nd.Box{{Start: 4, Stop: 8}}}, {Array: 1, Box: nd.Box{{Start: 4, Stop: 8}}}}}
	if got := o.source.Sample(5); !reflect.DeepEqual(got, want) {
		t.Errorf("sample 5 is %+v, want %+v", got, want)
	}
	if _, err := openSource(t.Context(), &request{Source: &sourceSpec{Kind: "novel"}}); !errors.Is(err, nd.ErrBug) {
		t.Errorf("got %v", err)
	}
}

// A relative pattern is one in the client's folder, whose own name is no pattern.
func TestExpand(t *testing.T) {
	plain := t.TempDir()
	odd := filepath.Join(plain, "sub", "*[q]?\\")
	for _, name := range []string{"b1", "a2", "a1", "[x]"} {
		for _, dir := range []string{plain, odd} {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for pattern, want := range map[string][]string{"a?": {"a1", "a2"}, "*1": {"a1", "b1"}, "[x]": {"[x]"}, "nothing": {"nothing"}} {
		for _, dir := range []string{plain, odd} {
			if got, err := expand(dir, pattern); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s in %s is %v, want %v (%v)", pattern, dir, got, want, err)
			}
		}
		got, err := expand("", filepath.Join(plain, pattern))
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s by its path is %v, want %v (%v)", pattern, got, want, err)
		}
	}
	if _, err := expand(plain, "c*"); !errors.Is(err, nd.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if got, err := expand(plain, "s3://bucket/a*"); err != nil || len(got) != 1 {
		t.Errorf("got %v %v", got, err)
	}
}
