package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/headrace/headrace/internal/atomicfile"
	"github.com/headrace/headrace/nd"
)

// Report is told how many of the total decoded bytes exist. Calls come one at a
// time.
type Report func(done, total int64)

// Write makes the arrays below root, on all cores. Arrays that are there already
// stay as they are; one that an earlier run left unfinished is continued. A
// different array under the same name is an error: nothing that is complete is
// ever overwritten, and nothing is written into an array or group of others.
//
// The file that makes an array an array (zarr.json, .zarray) is written last, so
// whatever can be opened is complete.
func Write(ctx context.Context, root string, arrays []Array, report Report) error {
	w := &writer{root: root, report: report}
	for i := range arrays {
		if err := w.add(&arrays[i]); err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// writer is one run of Write.
type writer struct {
	root string
	todo []*job

	mu     sync.Mutex // guards done and the left of all jobs, and serialises report
	report Report
	done   int64
	total  int64
}

// job is an array that has to be written.
type job struct {
	array *Array
	dir   string
	names []string // of the metadata
	docs  [][]byte
	keep  bool // an earlier run of the same array was interrupted

	objects int64 // all of them
	left    int64 // still to be written
}

// marker is the metadata of an array in the making, so that only a run for the
// same array goes on with its files.
const marker = ".headrace-unfinished"

func (w *writer) add(a *Array) error {
	if err := a.validate(); err != nil {
		return err
	}
	if _, err := newChunker(a); err != nil {
		return err // before anything is written
	}
	names, docs, err := a.documents()
	if err != nil {
		return err
	}
	if err := foreign(w.root, a, names); err != nil {
		return err
	}
	w.total += a.Bytes()
	j := &job{array: a, dir: filepath.Join(w.root, filepath.FromSlash(a.Path)), names: names, docs: docs}
	complete, err := j.look()
	if err != nil {
		return err
	}
	if complete {
		_ = os.Remove(filepath.Join(j.dir, marker)) // of a run that was killed after its last file
		w.done += a.Bytes()
		return nil
	}
	j.objects, _ = nd.Product(a.grid())
	j.left = j.objects
	w.todo = append(w.todo, j)
	return nil
}

// look finds out what is there already.
func (j *job) look() (complete bool, err error) {
	main := filepath.Join(j.dir, j.names[0])
	there, err := os.ReadFile(main)
	switch {
	case err == nil && bytes.Equal(there, j.docs[0]) && j.sameAttributes():
		return true, nil
	case err == nil:
		return false, nd.Errorf(nd.ErrConfig, "%s is another array than the one to write: remove it or choose another folder", j.dir)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		return false, nd.Errorf(nd.ErrIO, "%w", err)
	}
	unfinished, err := os.ReadFile(filepath.Join(j.dir, marker))
	j.keep = err == nil && bytes.Equal(unfinished, bytes.Join(j.docs, nil))
	return false, nil
}

func (j *job) sameAttributes() bool {
	for i, name := range j.names[1:] {
		there, err := os.ReadFile(filepath.Join(j.dir, name))
		if err != nil || !bytes.Equal(there, j.docs[1+i]) {
			return false
		}
	}
	return true
}

func (w *writer) run(ctx context.Context) error {
	w.say(0)
	for _, j := range w.todo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.begin(j); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tasks := make(chan task)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			if err := w.work(tasks); err != nil {
				cancel(err)
			}
		})
	}
	w.deal(ctx, tasks)
	workers.Wait()
	return context.Cause(ctx)
}

// task is one object to write.
type task struct {
	job    *job
	number int64
}

// deal hands out all objects, until ctx ends.
func (w *writer) deal(ctx context.Context, tasks chan<- task) {
	defer close(tasks)
	for _, j := range w.todo {
		for i := range j.objects {
			select {
			case tasks <- task{j, i}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// begin makes the folder, its groups and the marker.
func (w *writer) begin(j *job) error {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return nd.Errorf(nd.ErrIO, "make the folder of an array: %w", err)
	}
	atomicfile.RemoveStaleIn(j.dir)
	if err := atomicfile.Write(filepath.Join(j.dir, marker), bytes.Join(j.docs, nil)); err != nil {
		return err
	}
	for parent := path.Dir(j.array.Path); ; parent = path.Dir(parent) {
		if err := writeGroup(filepath.Join(w.root, filepath.FromSlash(parent)), j.array.Format); err != nil {
			return err
		}
		if parent == "." {
			break
		}
	}
	if j.objects == 0 {
		return j.finish()
	}
	return nil
}

// writeGroup makes dir a group of the given format if it is none yet, of either
// format: arrays of both may lie in one group.
func writeGroup(dir string, format int) error {
	name, doc := "zarr.json", group3
	if format == 2 {
		name, doc = ".zgroup", group2
	}
	atomicfile.RemoveStale(filepath.Join(dir, name))
	for _, there := range []string{"zarr.json", ".zgroup"} {
		if _, err := os.Stat(filepath.Join(dir, there)); err == nil {
			return nil
		}
	}
	return atomicfile.Write(filepath.Join(dir, name), []byte(doc))
}

// work writes objects until there are none left. After an error it takes no
// more.
func (w *writer) work(tasks <-chan task) error {
	var c *chunker // of the array at hand: objects come array by array
	for t := range tasks {
		if c == nil || c.array != t.job.array {
			var err error
			if c, err = newChunker(t.job.array); err != nil {
				return err
			}
		}
		if err := w.write(c, t); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) write(c *chunker, t task) error {
	a := t.job.array
	coord, n := a.objectAt(t.number)
	if err := c.writeObject(t.job.dir, coord, t.job.keep); err != nil {
		return fmt.Errorf("array %s: %w", a.Path, err)
	}
	w.mu.Lock()
	t.job.left--
	last := t.job.left == 0
	w.mu.Unlock()
	if last {
		if err := t.job.finish(); err != nil {
			return err
		}
	}
	w.say(n)
	return nil
}

// objectAt is the coordinate of an object and its bytes inside the array.
func (a *Array) objectAt(number int64) (coord []int64, size int64) {
	grid := a.grid()
	coord = make([]int64, len(grid))
	size = int64(a.DType.Size())
	for i := len(grid) - 1; i >= 0; i-- {
		coord[i] = number % grid[i]
		number /= grid[i]
		size *= min(a.object()[i], a.Shape[i]-coord[i]*a.object()[i])
	}
	return coord, size
}

// finish makes the array readable.
func (j *job) finish() error {
	for i, doc := range slices.Backward(j.docs) {
		if err := atomicfile.Write(filepath.Join(j.dir, j.names[i]), doc); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(j.dir, marker)); err != nil {
		return nd.Errorf(nd.ErrIO, "%w", err)
	}
	return nil
}

func (w *writer) say(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += n
	if w.report != nil {
		w.report(w.done, w.total)
	}
}

// Exists reports whether there is an array of this name and format below root,
// whoever wrote it.
func (a *Array) Exists(root string) bool {
	name := "zarr.json"
	if a.Format == 2 {
		name = ".zarray"
	}
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(a.Path), name))
	return err == nil
}
