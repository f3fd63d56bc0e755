package pipeline

import (
	"context"
	"errors"
	"maps"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// A mapping is a window of a file of the page cache, mapped read-only and
// registered with the device's driver, so that chunks are copied to the device
// without the host touching them. Only windows that the page cache holds (store.Mapper) are
// mapped: to register them would read the rest, on the spot. Everything else goes
// through the ring; the bytes are the same.
//
// The processor never reads a mapping: if the file is cut short meanwhile, that
// would be a fault that no error can report. Whether the file is still the one
// whose index was read is looked at after the copies (device_settle.go).
type mapping struct {
	key     mappingKey
	object  *object // one of the file, to look at the file by
	state   mappingState
	outcome mappingState // the reader's
	mem     []byte
	pins    int   // waves in flight
	lastUse int64 // number of the last wave
	asked   int   // times that it was asked for since it was refused
}

type mappingKey struct {
	array  int32
	root   int64 // the file, see object.root
	window int64
}

type mappingState uint8

const (
	mappingNew     mappingState = iota
	mappingLoading              // a reader is at it
	mappingThere
	mappingRefused // not resident, or the driver does not register it
)

const (
	// mapWindow is what is registered at once: shards of common sizes in one piece,
	// and larger files a part at a time.
	mapWindow = 256 * mib
	// mappedBytes is the default of MappedBytes.
	mappedBytes = 4 << 30
	// mappingRest is the number of waves after which an unused mapping makes room
	// for another: before that, the working set is larger than the budget, and
	// registering in turn costs more than the ring.
	mappingRest = 64
	// mappingsLeast is the length of the list below which nothing is forgotten.
	mappingsLeast = 4096
	// mappingPatience is the number of uses after which a window that was refused
	// is tried again: the ring has brought more of it in by then.
	mappingPatience = 256
)

// mappings belongs to the scheduler's goroutine; load and unload run on readers.
type mappings struct {
	gpu     *cuda.Device
	limit   int64 // bytes
	used    int64
	list    map[mappingKey]*mapping
	retired map[*mapping]int64 // that a reader is to give back, and their bytes
	leaving int64              // bytes of these
	full    int64              // number of the last wave that found no room
	bound   int                // of the list, see forget
	request func(*mapping)
	counts  *counters
}

// find gives the mapping that holds a range of the object's file and pins it for
// the wave; nil where there is none, or none yet.
func (m *mappings) find(o *object, off, length, wave int64) *mapping {
	if m == nil || o.blob != nil || off/mapWindow != (off+length-1)/mapWindow {
		return nil
	}
	if _, ok := o.array.store.(store.Mapper); !ok {
		return nil
	}
	key := mappingKey{o.key.array, o.root, off / mapWindow}
	g := m.list[key]
	if g == nil {
		if m.full == wave {
			return nil
		}
		m.forget()
		g = &mapping{key: key}
		m.list[key] = g
	}
	if g.state == mappingThere && g.object.version == o.version && off+length <= g.start()+int64(len(g.mem)) {
		if g.lastUse != wave {
			g.pins++
			g.lastUse = wave
		}
		return g
	}
	m.ask(g, o, wave)
	return nil
}

func (g *mapping) start() int64 { return g.key.window * mapWindow }

// ask has a window mapped, if there is room for it.
func (m *mappings) ask(g *mapping, o *object, wave int64) {
	if g.asked++; g.state == mappingLoading || g.pins > 0 || g.state == mappingRefused && g.asked < mappingPatience {
		return
	}
	if g.state == mappingThere { // of another version of the file
		m.retire(g)
	}
	if !m.makeRoom(wave) {
		return
	}
	g.object, g.asked = o, 0
	g.state = mappingLoading
	m.used += mapWindow // until its size is known
	m.request(g)
}

// makeRoom retires the mappings that were not used for longest, and reports whether
// there is room now: what they held is free only when a reader has given it back. A
// wave looks for room once, for the search is long.
func (m *mappings) makeRoom(wave int64) bool {
	if m.full == wave {
		return false
	}
	for m.used-m.leaving+mapWindow > m.limit {
		var oldest *mapping
		for _, g := range m.list {
			if g.state == mappingThere && g.pins == 0 && g.lastUse+mappingRest < wave && (oldest == nil || g.lastUse < oldest.lastUse) {
				oldest = g
			}
		}
		if oldest == nil {
			break
		}
		m.retire(oldest)
	}
	if m.used+mapWindow > m.limit {
		m.full = wave
		return false
	}
	return true
}

// forget bounds the list: windows that are not mapped only remember that they were
// asked for.
func (m *mappings) forget() {
	if len(m.list) < m.bound {
		return
	}
	maps.DeleteFunc(m.list, func(_ mappingKey, g *mapping) bool {
		return g.state == mappingNew || g.state == mappingRefused
	})
	m.bound = max(mappingsLeast, 2*len(m.list))
}

// retire takes a mapping off the list of usable ones; a reader gives it back.
func (m *mappings) retire(g *mapping) {
	m.leaving += int64(len(g.mem))
	old := *g
	g.state, g.mem, g.object = mappingNew, nil, nil
	m.retired[&old] = int64(len(old.mem))
	m.request(&old)
}

// finish takes a mapping back from the reader.
func (m *mappings) finish(g *mapping) {
	if n, ok := m.retired[g]; ok {
		delete(m.retired, g)
		m.used -= n
		m.leaving -= n
		m.counts.mappedBytes.Store(m.used)
		return
	}
	g.state = g.outcome
	if g.state == mappingRefused {
		g.object = nil // its index is not ours to keep
	}
	m.used += int64(len(g.mem)) - mapWindow
	m.counts.mappedBytes.Store(m.used)
}

func (m *mappings) unpin(g *mapping) { g.pins-- }

// run is the reader's part: it maps what is being loaded, and gives back what was
// retired.
func (m *mappings) run(ctx context.Context, g *mapping) {
	if g.state != mappingLoading {
		m.release(g) //nolint:errcheck // the address is ours
		return
	}
	g.outcome = mappingThere
	if err := m.load(ctx, g); err != nil {
		g.outcome = mappingRefused
	}
}

var errNotResident = errors.New("not in the page cache")

func (m *mappings) load(ctx context.Context, g *mapping) error {
	o := g.object
	st, _ := o.array.store.(store.Mapper)
	size, err := o.array.store.Size(ctx, o.file)
	if err != nil {
		return err
	}
	mem, version, err := st.Map(ctx, o.file, g.start(), min(mapWindow, size-g.start()))
	if err != nil {
		return err
	}
	if version != o.version {
		err = errChanged
	}
	if err == nil {
		var resident bool
		if resident, err = st.Resident(ctx, o.file, g.start(), int64(len(mem))); err == nil && !resident {
			err = errNotResident
		}
	}
	if err == nil {
		err = m.gpu.Register(mem, true)
	}
	if err != nil {
		return errors.Join(err, store.Unmap(mem))
	}
	g.mem = mem
	return nil
}

func (m *mappings) release(g *mapping) error {
	if g.mem == nil {
		return nil
	}
	mem := g.mem
	g.mem = nil
	return errors.Join(m.gpu.Unregister(mem), store.Unmap(mem))
}

// close gives all mappings back, after the readers have ended.
func (m *mappings) close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, g := range m.list {
		errs = append(errs, m.release(g))
	}
	for g := range m.retired {
		errs = append(errs, m.release(g))
	}
	m.list, m.retired = nil, nil
	return whole(errs)
}

// checkMappings looks whether the files are still those whose indexes were read;
// the chunks of those that are not may have any bytes.
func (d *device) checkMappings(w *wave) {
	for _, g := range w.mappings {
		err := g.object.unchanged(d.p.ctx)
		if err == nil {
			continue
		}
		if !errors.Is(err, nd.ErrIO) {
			err = nd.Errorf(nd.ErrIO, "the file cannot be looked at again after it was copied: %w", err)
		}
		for i := range w.chunks {
			if c := &w.chunks[i]; c.mapping == g && c.err == nil {
				w.fail(i, err)
			}
		}
	}
}
