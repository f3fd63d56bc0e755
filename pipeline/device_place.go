package pipeline

import (
	"errors"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// Batches on a GPU: what place asks for.

func (d *device) ordinal() (int, bool) { return d.gpu.Info().Ordinal, true }

func (d *device) mark(stream uintptr) (Event, error) {
	e, err := d.events.record(stream)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (d *device) drain() error { return d.gpu.Synchronize() }

func (d *device) export(s *slot) (Exported, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle == nil {
		handle, err := d.gpu.ExportMemory(s.addr)
		if err != nil {
			return Exported{}, false, err
		}
		s.handle = &handle
	}
	return Exported{s, uint64(s.addr), s.bytes, *s.handle, d.gpu.Info().UUID}, true, nil
}

func (d *device) copyOut(dst []byte, s *slot, offset int) error {
	return d.fetch(dst, s.addr+cuda.Ptr(offset))
}

// fetchBytes is the pinned memory through which batches are fetched.
const fetchBytes = 1 * mib

// fetch copies memory of the device to the host and waits.
func (d *device) fetch(dst []byte, src cuda.Ptr) error {
	d.fetching.Lock()
	defer d.fetching.Unlock()
	if d.bounce == nil {
		return nd.Errorf(nd.ErrClosed, "the pipeline is closed")
	}
	e, err := d.events.take()
	if err != nil {
		return err
	}
	defer d.events.put(e)
	for len(dst) > 0 {
		part := d.bounce[:min(len(dst), len(d.bounce))]
		var c cuda.Commands
		c.Copy(d.fetches, cuda.Address(part), src, int64(len(part)))
		c.Record(d.fetches, e.Event)
		if err := errors.Join(d.gpu.Run(&c), e.Wait()); err != nil {
			return err
		}
		src += cuda.Ptr(copy(dst, part))
		dst = dst[len(part):]
	}
	return nil
}
