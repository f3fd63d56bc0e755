package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// An object is a stored thing that says where chunks lie: a shard with its index,
// or an unsharded chunk, which is an index of one entry. Objects of nested shards
// lie within their parent. They are kept, least recently used out, in a budget of
// bytes; those that a planned sample still needs are pinned.
type object struct {
	key    objectKey
	array  *boundArray
	coord  []int64
	parent *object // the shard around it, nil at the outermost level
	within int64   // number of its entry in the parent
	root   int64   // number of the outermost object, which is the file

	state   objectState
	outcome objectState  // the reader's, becomes state when the scheduler takes the object back
	err     error        // for objectFailed
	base    int64        // where it begins within file
	file    string       // key in the store
	blob    []byte       // its decoded bytes where codecs wrap it, nil otherwise
	size    int64        // bytes
	version uint64       // of the file, where its store has versions
	table   []zarr.Entry // nil for an unsharded chunk
	waiting []waiter

	pins       int
	prev, next *object // in the list of unpinned objects
}

type objectKey struct {
	array  int32
	level  int32
	number int64
}

type objectState uint8

const (
	objectNew     objectState = iota // nobody has asked yet
	objectLoading                    // a reader is at it, or its parent
	objectLoaded
	objectMissing // not stored: every chunk of it is fill
	objectFailed
)

// waiter wants to know when an object is located.
type waiter interface{ located(*locator) }

// entryBytes is the cost of one index entry in the cache's budget.
const entryBytes = 16

// objectOverhead is the fixed cost of an object in the cache's budget: the struct,
// its key and its place in the map.
const objectOverhead = 400

func (o *object) bytes() int64 {
	return objectOverhead + int64(len(o.table))*entryBytes + int64(len(o.blob))
}

// at is where entry i lies; missing is true for a chunk that is not stored.
func (o *object) at(i int64) (off, length int64, missing bool) {
	switch {
	case o.state == objectMissing:
		return 0, 0, true
	case o.table == nil:
		return o.base, o.size, false
	}
	e := o.table[i]
	if e.Missing() {
		return 0, 0, true
	}
	return o.base + int64(e.Offset), int64(e.Length), false
}

// locator keeps the objects. It belongs to the scheduler's goroutine; only load
// runs on the readers.
type locator struct {
	objects map[objectKey]*object
	limit   int64
	used    int64
	idle    object // ring of unpinned objects, most recently used first
	request func(*object)
	counts  *counters
}

func newLocator(limit int64, counts *counters, request func(*object)) *locator {
	l := &locator{objects: map[objectKey]*object{}, limit: limit, counts: counts, request: request}
	l.idle.prev, l.idle.next = &l.idle, &l.idle
	return l
}

// pin finds the object of the given number that locates chunks of the array and
// asks for it if it is not there. The caller unpins it.
func (l *locator) pin(a *boundArray, number int64) *object {
	return l.pinLevel(a, a.layout.holder, number)
}

func (l *locator) pinLevel(a *boundArray, level int, number int64) *object {
	key := objectKey{a.index, int32(level), number}
	o := l.objects[key]
	if o == nil {
		l.counts.indexMisses.Add(1)
		o = &object{key: key, array: a, coord: a.layout.coordinate(level, number)}
		l.objects[key] = o
		o.root = number
		if level > 0 {
			up, within := a.layout.parent(level, o.coord)
			o.parent, o.within = l.pinLevel(a, level-1, up), within
			o.root = o.parent.root
		}
	} else {
		l.counts.indexHits.Add(1)
	}
	if o.pins++; o.pins == 1 && o.next != nil {
		o.unlink()
	}
	if o.state == objectNew {
		o.state = objectLoading
		if o.parent != nil && !o.parent.settled() {
			o.parent.waiting = append(o.parent.waiting, o)
		} else {
			l.request(o)
		}
	}
	return o
}

// located continues with an object whose parent is there.
func (o *object) located(l *locator) { l.request(o) }

// settled reports whether nothing more will happen to the object.
func (o *object) settled() bool { return o.state >= objectLoaded }

// unpin lets the object go when the budget asks for it. What failed is forgotten
// at once, so that a later sample tries again.
func (l *locator) unpin(o *object) {
	if o.pins--; o.pins > 0 {
		return
	}
	if !o.settled() {
		return
	}
	if o.state == objectFailed || l.objects[o.key] != o {
		l.drop(o)
		return
	}
	o.linkAfter(&l.idle)
	l.shrink()
}

func (l *locator) shrink() {
	for l.used > l.limit && l.idle.prev != &l.idle {
		last := l.idle.prev
		last.unlink()
		l.drop(last)
	}
}

func (l *locator) drop(o *object) {
	l.used -= o.bytes()
	if l.objects[o.key] == o {
		delete(l.objects, o.key)
	}
	if o.parent != nil {
		l.unpin(o.parent)
	}
}

// finish takes an object back from the reader that loaded it and tells those who
// wait for it.
func (l *locator) finish(o *object) {
	o.state = o.outcome
	l.used += o.bytes()
	waiting := o.waiting
	o.waiting = nil
	for _, w := range waiting {
		w.located(l)
	}
	if o.pins == 0 { // everyone who wanted it was discarded meanwhile
		o.pins = 1
		l.unpin(o)
	}
	l.shrink()
}

func (o *object) linkAfter(p *object) {
	o.prev, o.next = p, p.next
	p.next.prev = o
	p.next = o
}

func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = nil, nil
}

// load reads what locates the chunks of an object. It runs on a reader: until
// finish the object is the reader's alone, save for the scheduler's bookkeeping
// (state, pins, waiting).
func (o *object) load(ctx context.Context, s *codec.Scratch, verify bool) {
	began := time.Now()
	err := o.read(ctx, s, verify)
	switch {
	case err == nil:
		o.outcome = objectLoaded
	case errors.Is(err, errMissing):
		o.outcome = objectMissing
	default:
		o.outcome = objectFailed
		o.err = nd.At(err, nd.Place{Array: o.array.ref.URI, Chunk: coordinates(o.coord), File: o.file})
	}
	o.array.counts.locate.add(1, time.Since(began), 0, int64(len(o.table))*entryBytes)
}

var errMissing = errors.New("not stored")

func (o *object) read(ctx context.Context, s *codec.Scratch, verify bool) error {
	if err := o.place(ctx); err != nil {
		return err
	}
	level := &o.array.meta.Levels[o.key.level]
	if level.Index == nil {
		return nil
	}
	if len(level.Bytes) > 0 {
		if err := o.unwrap(ctx, s, verify); err != nil {
			return err
		}
	}
	ix := level.Index
	n := ix.Size()
	if o.size < n {
		return nd.Errorf(nd.ErrCorrupt, "the shard has %d bytes, its index alone needs %d: was the writer interrupted?", o.size, n)
	}
	at := o.base
	if !ix.AtStart {
		at += o.size - n
	}
	raw := make([]byte, n)
	if err := o.readAt(ctx, raw, at); err != nil {
		return err
	}
	table, err := ix.Parse(nil, raw, o.size)
	if err != nil {
		return err
	}
	o.table = table
	return nil
}

// place finds where the object begins and how long it is.
func (o *object) place(ctx context.Context) error {
	if p := o.parent; p != nil {
		if p.state == objectFailed {
			return p.err
		}
		off, length, missing := p.at(o.within)
		if missing {
			return errMissing
		}
		o.file, o.base, o.size, o.blob, o.version = p.file, off, length, p.blob, p.version
		return nil
	}
	o.file = o.array.key(o.coord)
	if v, ok := o.array.store.(store.Versioned); ok {
		var err error
		if o.version, err = v.Version(ctx, o.file); err != nil && !errors.Is(err, nd.ErrNotFound) {
			return err
		}
	}
	size, err := o.array.store.Size(ctx, o.file)
	if errors.Is(err, nd.ErrNotFound) {
		return o.array.missing(ctx)
	}
	o.size = size
	return err
}

// missing tells a chunk that is not stored from a store that is gone: it is
// missing only while the array's own document is there.
func (a *boundArray) missing(ctx context.Context) error {
	if a.document == "" {
		return errMissing
	}
	_, err := a.store.Size(ctx, a.document)
	if errors.Is(err, nd.ErrNotFound) {
		return nd.Errorf(nd.ErrIO, "%s is gone, and with it perhaps the whole store: was it unmounted?", a.document)
	}
	if err != nil {
		return err
	}
	return errMissing
}

// unwrap decodes the codecs around a whole shard; from then on its bytes come
// from memory. The decoded length is not known beforehand, but bounded.
func (o *object) unwrap(ctx context.Context, s *codec.Scratch, verify bool) error {
	if limit := o.array.limits.index; o.size > limit {
		return nd.Errorf(nd.ErrBudget, "codecs wrap a shard of %d bytes, the index cache holds %d: raise HostBytes", o.size, limit)
	}
	packed := make([]byte, o.size)
	if err := o.readAt(ctx, packed, o.base); err != nil {
		return err
	}
	chain := o.array.wraps[o.key.level]
	if !verify {
		chain = chain.WithoutChecksums()
	}
	blob, err := chain.Decode(make([]byte, o.array.limits.index), packed, s)
	if err != nil {
		return err
	}
	o.blob = append([]byte(nil), blob...)
	o.base, o.size = 0, int64(len(blob))
	return nil
}

// readAt reads from the object's file, or from memory where it was unwrapped.
func (o *object) readAt(ctx context.Context, p []byte, off int64) error {
	if o.blob == nil {
		return o.array.store.ReadAt(ctx, o.file, p, off)
	}
	if off < 0 || off+int64(len(p)) > int64(len(o.blob)) {
		return nd.Errorf(nd.ErrCorrupt, "range %d+%d of a shard of %d bytes", off, len(p), len(o.blob))
	}
	copy(p, o.blob[off:])
	return nil
}

// errChanged marks bytes that may not be those that the index speaks of.
var errChanged = errors.New("changed")

// unchanged looks whether the file is still the one whose index was read: raw
// chunks of another index would be read without a complaint.
func (o *object) unchanged(ctx context.Context) error {
	v, ok := o.array.store.(store.Versioned)
	if !ok || o.blob != nil {
		return nil
	}
	now, err := v.Version(ctx, o.file)
	if err == nil && now != o.version {
		return &nd.Error{Kind: nd.ErrIO, Detail: "the file was written or replaced since its index was read", Err: errChanged}
	}
	return err
}

// readSame reads bytes that the object's index speaks of.
func (o *object) readSame(ctx context.Context, p []byte, off int64) error {
	if err := o.readAt(ctx, p, off); err != nil {
		return err
	}
	return o.unchanged(ctx)
}

// forsake makes the next sample read the object's index again, while those that
// are planned keep what they have.
func (l *locator) forsake(o *object) {
	for ; o != nil; o = o.parent {
		if l.objects[o.key] == o {
			delete(l.objects, o.key)
		}
	}
}

// coordinate is the grid coordinate of chunk number n of a level.
func (l *arrayLayout) coordinate(level int, n int64) []int64 {
	grid := l.meta.GridShape(level)
	c := make([]int64, len(grid))
	for i := len(grid) - 1; i >= 0; i-- {
		c[i] = n % grid[i]
		n /= grid[i]
	}
	return c
}

// parent is the number of the chunk one level up that holds the chunk at coord,
// and the number of its entry there.
func (l *arrayLayout) parent(level int, coord []int64) (number, within int64) {
	up, down := l.meta.Levels[level-1].Chunk, l.meta.Levels[level].Chunk
	grid := l.meta.GridShape(level - 1)
	for i := range coord {
		number = number*grid[i] + coord[i]*down[i]/up[i]
	}
	return number, l.meta.IndexOf(level-1, coord)
}

func coordinates(c []int64) string {
	parts := make([]string, len(c))
	for i, x := range c {
		parts[i] = fmt.Sprint(x)
	}
	return strings.Join(parts, "/")
}

// boundArray is an array that the pipeline reads.
type boundArray struct {
	index    int32
	ref      ArrayRef
	store    store.Store
	prefix   string // of the array within the store, "" or ending in "/"
	document string // key of its metadata, "" if those were found elsewhere
	meta     *zarr.Array
	layout   *arrayLayout
	pairs    []pairing      // with each field
	wraps    []*codec.Chain // per level, for codecs around whole shards
	limits   *limits
	owned    bool // the store was opened for this array and closes with the pipeline
	counts   *counters
}

func (a *boundArray) key(coord []int64) string { return a.prefix + a.meta.Key(coord) }
