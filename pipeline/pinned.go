package pipeline

import (
	"errors"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// pinned is host memory that is registered with a device in the background: that
// takes 0.2 s a GiB, and readers can fill it meanwhile. Large pages make it five
// times faster than the driver's own allocation. Where there are several NUMA nodes it
// lies on the GPU's: copies from others go through the link between sockets.
type pinned struct {
	mem  []byte
	done chan struct{} // closed when it is registered, or err says why not
	err  error
}

// pin takes n bytes.
func (d *device) pin(n int64) (*pinned, error) {
	mem, err := allocate(n)
	if err != nil {
		return nil, err
	}
	if d.node >= 0 {
		_ = cuda.PreferNode(mem, d.node) // a matter of speed alone: containers may forbid it
	}
	p := &pinned{mem: mem, done: make(chan struct{})}
	go func() { // free waits for it
		defer close(p.done)
		if err := d.gpu.Register(mem, false); err != nil {
			p.err = nd.Errorf(nd.ErrBudget, "%d bytes of host memory cannot be pinned for the GPU, lower HostBytes: %w", n, err)
		}
	}()
	return p, nil
}

// wait waits until the device may read the memory.
func (p *pinned) wait() error {
	<-p.done
	return p.err
}

func (p *pinned) free(gpu *cuda.Device) error {
	if p == nil {
		return nil
	}
	<-p.done
	var err error
	if p.err == nil {
		err = gpu.Unregister(p.mem)
	}
	return errors.Join(err, free(p.mem))
}
