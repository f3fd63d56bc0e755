package main

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/pipeline"
)

// meanPTX is mean.cu, compiled by compile.py. The driver compiles it for its GPU.
//
//go:embed mean.ptx
var meanPTX []byte

// threads of a block; mean.cu has room for their sums.
const threads = 256

// gpu works on batches where they lie: on a stream of its own, with a kernel of its
// own, in the context that the pipeline's device has too.
type gpu struct {
	device   *cuda.Device
	stream   *cuda.Stream
	done     *cuda.Event
	mean     cuda.Function
	out      cuda.Ptr // the kernel's results
	host     []byte   // and where they are copied to
	commands cuda.Commands
}

// openGPU opens the GPU of a name such as "cuda:1".
func openGPU(name string) (g *gpu, err error) {
	ordinal, err := strconv.Atoi(strings.TrimPrefix(name, "cuda:"))
	if err != nil {
		return nil, fmt.Errorf("device %q: cpu or cuda:N is wanted", name)
	}
	driver, err := cuda.Load("")
	if err != nil {
		return nil, err
	}
	g = &gpu{}
	if g.device, err = driver.Open(ordinal); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.device.Close())
		}
	}()
	module, err := g.device.LoadModule([][]byte{meanPTX})
	if err != nil {
		return nil, err
	}
	if g.mean, err = module.Function("crop_means"); err != nil {
		return nil, err
	}
	if g.stream, err = g.device.NewStream(0); err != nil {
		return nil, err
	}
	if g.done, err = g.device.NewEvent(false); err != nil {
		return nil, err
	}
	if g.out, err = g.device.Alloc(4 * batchSize); err != nil {
		return nil, err
	}
	g.host, err = g.device.AllocHost(4 * batchSize)
	return g, err
}

// close frees all that was made on the device.
func (g *gpu) close() error { return g.device.Close() }

// take computes the mean of a batch's crops and gives the batch back. A batch that Next
// returned is ready on every stream; its memory is written again only after the event.
func (g *gpu) take(b *pipeline.Batch) (float64, error) {
	image := b.Tensor("image")
	crops := int(image.Shape[0])
	if crops == 0 {
		return 0, b.Release(nil)
	}
	elements := image.Shape[1] * image.Shape[2] * image.Shape[3]
	parameters := binary.LittleEndian.AppendUint64(nil, image.Address)
	parameters = binary.LittleEndian.AppendUint64(parameters, uint64(g.out))
	parameters = binary.LittleEndian.AppendUint32(parameters, uint32(elements))

	g.commands.Reset()
	g.commands.Launch(g.stream, g.mean, crops, threads, 0, parameters)
	g.commands.Copy(g.stream, cuda.Address(g.host), g.out, int64(4*crops))
	g.commands.Record(g.stream, g.done)
	if err := g.device.Run(&g.commands); err != nil {
		return 0, errors.Join(err, b.Release(nil))
	}
	// A trainer would go on with its next step here and look at the result later.
	if err := errors.Join(b.Release(g.done), g.done.Wait()); err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range crops {
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(g.host[4*i:])))
	}
	return sum / float64(crops), nil
}
