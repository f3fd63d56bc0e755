package pipeline

import (
	"context"
	"sync"

	"github.com/headrace/headrace/nd"
)

// inbox is where everyone else leaves what the scheduler must know: samples from
// Push, objects and reads from the readers, waves from the backend. Leaving
// something never blocks, save for samples: they wait until there is room in the
// look-ahead.
type inbox struct {
	mu      sync.Mutex
	mail    mail
	wake    chan struct{} // holds a token when there is mail
	room    int           // samples that Push may still take
	roomed  chan struct{} // closed and renewed when room is given back
	waiting int           // pushers that wait for room
	open    *batchState   // batch that Push is filling
	step    int64         // number of the next batch of Push
	seq     int64         // number of the next batch
	ended   bool          // Close or a fatal error: nothing is taken any more
	fatal   error
}

// mail is what the scheduler takes at once.
type mail struct {
	batches  []*batchState // new ones, in order
	samples  []*sampleState
	closed   []*batchState // batches that get no more samples
	objects  []*object
	mappings []*mapping
	read     []*wave
	done     []*wave
	discards []chan struct{}
	ended    bool
}

func newInbox(room int) *inbox {
	return &inbox{wake: make(chan struct{}, 1), room: room, roomed: make(chan struct{})}
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the mail for the empty one of the last call.
func (b *inbox) take(empty mail) mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.mail
	m.ended = b.ended
	b.mail = mail{
		batches: empty.batches[:0], samples: empty.samples[:0], closed: empty.closed[:0],
		objects: empty.objects[:0], mappings: empty.mappings[:0], read: empty.read[:0], done: empty.done[:0], discards: empty.discards[:0],
	}
	return m
}

func (b *inbox) putObject(o *object) {
	b.mu.Lock()
	b.mail.objects = append(b.mail.objects, o)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) putMapping(g *mapping) {
	b.mu.Lock()
	b.mail.mappings = append(b.mail.mappings, g)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) putRead(w *wave) {
	b.mu.Lock()
	b.mail.read = append(b.mail.read, w)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) putDone(w *wave) {
	b.mu.Lock()
	b.mail.done = append(b.mail.done, w)
	b.mu.Unlock()
	b.ring()
}

// enter locks the inbox once there is room for n more samples. The caller unlocks
// it if err is nil. Where there is room it succeeds even if ctx has ended: package
// loader fills the look-ahead that way without waiting.
func (b *inbox) enter(ctx context.Context, n int) error {
	b.mu.Lock()
	for {
		if b.ended {
			err := b.endedError()
			b.mu.Unlock()
			return err
		}
		if b.room >= n {
			return nil
		}
		roomed := b.roomed
		b.waiting++
		b.mu.Unlock()
		b.ring()
		select {
		case <-roomed:
		case <-ctx.Done():
		}
		b.mu.Lock()
		b.waiting--
		if b.room < n && ctx.Err() != nil {
			b.mu.Unlock()
			return ctx.Err()
		}
	}
}

func (b *inbox) endedError() error {
	if b.fatal != nil {
		return b.fatal
	}
	return nd.Errorf(nd.ErrClosed, "the pipeline is closed")
}

// giveRoom lets n more samples in.
func (b *inbox) giveRoom(n int) {
	b.mu.Lock()
	b.room += n
	b.wakePushers()
	b.mu.Unlock()
}

func (b *inbox) wakePushers() {
	if b.waiting > 0 {
		close(b.roomed)
		b.roomed = make(chan struct{})
	}
}

// end makes every later call fail; err is nil for an orderly close.
func (b *inbox) end(err error) {
	b.mu.Lock()
	if b.fatal == nil {
		b.fatal = err
	}
	b.ended = true
	b.wakePushers()
	b.mu.Unlock()
	b.ring()
}

// openBatch starts a batch; the inbox is locked.
func (b *inbox) openBatch(meta Meta) *batchState {
	batch := &batchState{seq: b.seq, meta: meta}
	b.seq++
	b.mail.batches = append(b.mail.batches, batch)
	return batch
}

// closeBatch says that a batch gets no more samples; the inbox is locked.
func (b *inbox) closeBatch(batch *batchState) {
	b.mail.closed = append(b.mail.closed, batch)
	if batch == b.open {
		b.open = nil
	}
}

// addSample appends a sample to a batch; the inbox is locked and has room.
func (b *inbox) addSample(batch *batchState, s *sampleState) {
	b.room--
	s.batch, s.index = batch, int32(batch.pushed)
	batch.pushed++
	b.mail.samples = append(b.mail.samples, s)
}

// endOpen closes the batch that Push has begun, if there is one; the inbox is
// locked.
func (b *inbox) endOpen() {
	if b.open != nil {
		b.closeBatch(b.open)
	}
}

// discard takes back what the scheduler has not seen yet and asks it to drop the
// rest; done is closed when it has.
func (b *inbox) discard(done chan struct{}) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return b.endedError()
	}
	b.room += len(b.mail.samples)
	for _, batch := range b.mail.batches {
		b.room += batch.room
	}
	b.mail.samples, b.mail.batches, b.mail.closed = nil, nil, nil
	b.open = nil
	b.mail.discards = append(b.mail.discards, done)
	b.wakePushers()
	return nil
}

// reason is why the pipeline takes nothing any more.
func (b *inbox) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endedError()
}

// ending is why nothing is taken any more, nil while the pipeline works.
func (b *inbox) ending() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return b.endedError()
	}
	return nil
}
