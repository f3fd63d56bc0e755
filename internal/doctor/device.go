package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// kernelImage loads the embedded kernels and looks each of them up, which makes a
// driver that loads lazily compile them too.
func kernelImage(name string, g *cuda.Device) Check {
	c := Check{Name: name + " kernels", Status: OK}
	began := time.Now()
	err := loadKernels(g)
	if err != nil {
		c.Status, c.Found = Warn, err.Error()
		c.Advice = "batches stay on the host: update the driver to 535 or later"
		return c
	}
	took := time.Since(began)
	c.Found = fmt.Sprintf("loaded in %.3g ms", float64(took.Microseconds())/1000)
	if took > time.Second {
		c.Status, c.Advice = Note, "the driver compiled them now and keeps the result: give it a cache that stays (CUDA_CACHE_PATH)"
	}
	return c
}

func loadKernels(g *cuda.Device) (err error) {
	m, err := g.LoadModule(kernels.Images())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for _, kernel := range []string{kernels.Assemble, kernels.Decode, kernels.Gather} {
		f, err := m.Function(kernel)
		if err != nil {
			return err
		}
		if _, err := f.Attributes(); err != nil {
			return err
		}
	}
	return nil
}

// littleMemory is what a small pipeline takes of a GPU.
const littleMemory = 1 << 30

func freeMemory(name string, g *cuda.Device) Check {
	c := Check{Name: name + " memory", Status: OK}
	free, total, err := g.MemInfo()
	if err != nil {
		return Check{c.Name, Warn, err.Error(), "see what nvidia-smi says of it"}
	}
	c.Found = fmt.Sprintf("%s of %s free", size(free), size(total))
	if free < littleMemory {
		c.Status, c.Advice = Warn, "nvidia-smi shows which processes hold it; DeviceBytes caps what a pipeline takes"
	}
	return c
}

func batchedCopies(name string, info cuda.Info) Check {
	c := Check{Name: name + " copies", Status: OK, Found: "in batches: one call of the driver for hundreds of chunks"}
	if info.BatchCopy {
		return c
	}
	c.Status, c.Found = Note, "small chunks by a kernel, on multiprocessors that the trainer lacks meanwhile"
	if !info.HostPointers {
		c.Found = "one call of the driver for each chunk"
	}
	c.Advice = "a driver of CUDA 12.8 or later (570) has copies in batches"
	return c
}

// pinBytes bounds what the check of pinning maps.
const pinBytes = 4 << 20

// pinning proves that a file can be copied to the GPU straight from the page cache:
// one of s.Path where there is one, since not every file system allows it.
func (s System) pinning(ctx context.Context, name string, g *cuda.Device) Check {
	c := Check{Name: name + " page cache", Status: OK}
	const ring = "its chunks go through the pinned ring: the same bytes, at the cost of host cores"
	if !g.Info().ReadOnlyRegister {
		return Check{c.Name, Note, "the driver pins no read-only mappings", ring + "; a newer driver or kernel may do it"}
	}
	file, own, err := s.toPin()
	if own != "" {
		defer os.Remove(own) //nolint:errcheck // a leftover harms nobody
	}
	if err != nil {
		return Check{c.Name, Note, "not tried: " + err.Error(), "give a folder with data: --path DIR"}
	}
	took, err := pinAndCopy(ctx, g, file)
	if err != nil {
		return Check{c.Name, Note, fmt.Sprintf("%s cannot be pinned in place: %v", file, err), ring}
	}
	c.Found = fmt.Sprintf("pinned in place and copied from (%s in %.2g ms)", size(took.bytes), float64(took.took.Microseconds())/1000)
	return c
}

// toPin is a file to try with; own is its name if it was made for that.
func (s System) toPin() (file, own string, err error) {
	if s.Path != "" {
		if files, err := existing(s.Path); err == nil && len(files) > 0 {
			return files[0], "", nil
		}
	}
	own, err = writeRandom("", pinBytes)
	return own, own, err
}

// pinAndCopy registers the begin of the file, copies it to the GPU and back, and
// compares. The processor reads the file by pread, which also brings it into the
// page cache; it never touches the mapping, which a file cut short would make a
// fault.
func pinAndCopy(ctx context.Context, g *cuda.Device, name string) (_ speed, err error) {
	f, err := os.Open(name)
	if err != nil {
		return speed{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return speed{}, err
	}
	want := make([]byte, min(info.Size(), pinBytes))
	if _, err := f.ReadAt(want, 0); err != nil {
		return speed{}, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return speed{}, err
	}
	defer func() { err = errors.Join(err, unix.Munmap(mem)) }()
	began := time.Now()
	if err := g.Register(mem, true); err != nil {
		return speed{}, err
	}
	took := speed{int64(len(mem)), time.Since(began)}
	got, err := roundTrip(g, mem)
	err = errors.Join(err, g.Unregister(mem), ctx.Err())
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("the copy has other bytes than the file")
	}
	return took, err
}

// roundTrip copies registered memory to the GPU and back.
func roundTrip(g *cuda.Device, mem []byte) (_ []byte, err error) {
	n := int64(len(mem))
	there, err := g.Alloc(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Free(there)) }()
	back, err := g.AllocHost(n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.FreeHost(back)) }()
	stream, err := g.NewStream(cuda.LowPriority)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	done, err := g.NewEvent(false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done.Close()) }()
	var c cuda.Commands
	c.Copy(stream, there, cuda.Address(mem), n)
	c.Copy(stream, cuda.Address(back), there, n)
	c.Record(stream, done)
	if err := errors.Join(g.Run(&c), done.Wait()); err != nil {
		return nil, err
	}
	return bytes.Clone(back), nil
}
