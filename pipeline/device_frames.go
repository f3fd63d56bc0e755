package pipeline

import (
	"encoding/binary"
	"strings"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/nvcomp"
	"github.com/headrace/headrace/nd"
)

// frames decodes zstd frames by a library of the user's (Config.Decoder). Its calls
// take milliseconds however few frames they have, and share one scratch: they run
// one after the other on a stream of their own. It may hang or fault on what is not
// well formed, so the host looks at each frame's headers before.
type frames struct {
	library *nvcomp.Library
	stream  *cuda.Stream
	scratch cuda.Ptr
	bytes   int64 // of scratch
	chunks  int   // of a call at most, for that scratch
	largest int64 // decoded chunk
	least   int   // frames of a wave that are worth a call
}

// frameList is a wave's frames as the library reads them, in pinned memory and on
// the device, and what became of them.
type frameList struct {
	chunks  []int32
	args    [4][]byte // sources, their bytes, destinations, their bytes
	results []byte    // decoded bytes, then statuses
	at      cuda.Ptr  // the arrays on the device, each of deviceChunks entries
	done    *cuda.Event
}

const (
	frameArgs      = 4 * deviceChunks * 8
	frameResults   = deviceChunks * (8 + statusBytes)
	frameListBytes = frameArgs + frameResults
	// frameGrain is the alignment of frames on the device; openFrames refuses a
	// library that asks for more.
	frameGrain = 16
)

// decoderPath is the library that the config names: "nvcomp", or "nvcomp=PATH".
func (c *Config) decoderPath() (path string, framed bool) {
	name, path, _ := strings.Cut(c.Decoder, "=")
	return path, name == "nvcomp"
}

// openFrames loads the library, if the config asks for it.
func (d *device) openFrames() (err error) {
	path, framed := d.p.cfg.decoderPath()
	if !framed {
		return nil
	}
	f := &frames{least: framesLeast * d.p.cfg.Workers}
	if f.library, err = nvcomp.Open(path, d.gpu); err != nil {
		return err
	}
	d.frames = f
	in, out, scratch, err := f.library.Alignments(nvcomp.Zstd)
	if err != nil {
		return err
	}
	if in > frameGrain || max(out, scratch) > arenaGrain {
		return nd.Errorf(nd.ErrUnsupported, "nvCOMP %s wants alignments of %d, %d and %d: at most %d, %d and %d are kept", f.library.Version(), in, out, scratch, frameGrain, arenaGrain, arenaGrain)
	}
	f.stream, err = d.gpu.NewStream(cuda.LowPriority)
	return err
}

// plan works out the scratch for the frames of a wave, whose decoded sizes are those
// of the pipeline's arrays.
func (f *frames) plan(wave, smallest, largest int64) error {
	f.chunks = int(min(deviceChunks, wave/smallest+1))
	n, err := f.library.TempBytes(nvcomp.Zstd, f.chunks, largest, min(int64(f.chunks)*largest, wave+largest))
	f.bytes, f.largest = align(n), largest
	return err
}

// frameSizes are the smallest and the largest decoded chunks that are frames.
func (p *Pipeline) frameSizes() (smallest, largest int64) {
	smallest, largest = p.limits.chunk, 1
	for _, a := range *p.arrays.Load() {
		if r := a.layout.recipe; r.packing.frames() {
			smallest, largest = min(smallest, r.size), max(largest, r.size)
		}
	}
	return max(1, smallest), max(largest, smallest)
}

func (f *frames) free() error {
	if f == nil || f.stream == nil {
		return nil
	}
	return f.stream.Close()
}

// framesLeast is the number of frames for each worker below which the host decodes a
// wave's: a call of the library takes 7 ms or more for 64 frames of 256 KiB
// (bench/results/zstd-20261130-142052.json), in which a worker decodes about as many as this.
const framesLeast = 16

// framesOf is how many frames of the wave the library may have: none where they are
// not worth a call. loose says that there are some in the slab, which must be aligned
// and so come one by one.
func (d *device) framesOf(w *wave, fits bool) (most int, loose bool) {
	if d.frames == nil {
		return 0, false
	}
	read, kept := 0, 0
	for i := range w.chunks {
		if c := &w.chunks[i]; d.frames.takes(c) && c.source == fromCompressed {
			kept++
		} else if c.sound && fits {
			read++
		}
	}
	if kept == 0 && read < d.frames.least {
		return 0, false
	}
	return d.frames.chunks, read > 0
}

// takes reports whether the library decodes the chunk. Bytes that are kept are those
// that it has decoded before; the host does not have them.
func (f *frames) takes(c *waveChunk) bool {
	return c.sound || c.source == fromCompressed && c.recipe.packing.frames() && c.size <= f.largest
}

// look finds the frames among the chunks of a read that the library may have. A frame
// that is longer than an encoder makes it is not looked into: it may be millions of
// empty blocks.
func (d *device) look(w *wave, r *read) {
	f := d.frames
	if f == nil {
		return
	}
	for _, i := range w.loose[r.first:r.last] {
		c := &w.chunks[i]
		c.sound = c.err == nil && c.recipe.packing.frames() && c.size <= f.largest && c.length <= longestFrame(c.size) &&
			nvcomp.CheckZstd(d.p.slabs[c.off:c.off+c.length], c.size) == nil
	}
}

// longestFrame is libzstd's promise for what decodes to size bytes (ZSTD_compressBound),
// and a little for those of other encoders.
func longestFrame(size int64) int64 { return size + size/256 + 1024 }

func (l *frameList) reset() {
	l.chunks = l.chunks[:0]
	for i := range l.args {
		l.args[i] = l.args[i][:0]
	}
}

func (l *frameList) add(i int32, c *waveChunk, at cuda.Ptr) {
	l.chunks = append(l.chunks, i)
	for k, word := range [...]uint64{uint64(at), uint64(c.length), uint64(c.at), uint64(c.size)} {
		l.args[k] = binary.LittleEndian.AppendUint64(l.args[k], word)
	}
}

// array is the address of one of the arrays on the device.
func (l *frameList) array(i int) cuda.Ptr { return l.at + cuda.Ptr(i*deviceChunks*8) }

// decodeFrames enqueues the wave's frames between its copies and its kernels.
func (s *stage) decodeFrames(d *device) error {
	l := &s.frames
	if len(l.chunks) == 0 {
		return nil
	}
	f := d.frames
	for i, args := range l.args {
		s.commands.Copy(s.copies, l.array(i), cuda.Address(args), int64(len(args)))
	}
	s.commands.Record(s.copies, s.copied)
	s.commands.Await(f.stream, s.copied)
	if err := s.run(d); err != nil {
		return err
	}
	err := f.library.Decompress(nvcomp.Zstd, f.stream, nvcomp.Batch{
		Sources: l.array(0), SourceBytes: l.array(1), Destinations: l.array(2), DestinationBytes: l.array(3),
		ActualBytes: l.array(4), Statuses: l.array(5), N: len(l.chunks), Temp: f.scratch, TempBytes: f.bytes,
	})
	if err != nil {
		return err
	}
	s.commands.Record(f.stream, l.done)
	s.commands.Await(s.compute, l.done)
	n := len(l.chunks)
	s.commands.Copy(s.compute, cuda.Address(l.results[:n*8]), l.array(4), int64(n)*8)
	at := deviceChunks * 8
	s.commands.Copy(s.compute, cuda.Address(l.results[at:at+n*statusBytes]), l.array(5), int64(n)*statusBytes)
	return nil
}

// failed lists the chunks that the library did not decode as it should.
func (l *frameList) failed(w *wave) (list []int32) {
	for k, i := range l.chunks {
		size := binary.LittleEndian.Uint64(l.results[k*8:])
		status := binary.LittleEndian.Uint32(l.results[deviceChunks*8+k*statusBytes:])
		if status != 0 || int64(size) != w.chunks[i].size {
			list = append(list, i)
		}
	}
	return list
}

// checkDecoder is about the name alone; whether the library is there shows at Open.
func (c *Config) checkDecoder(v *violations) {
	_, framed := c.decoderPath()
	v.check(!framed || c.Device.gpu(), "Decoder", "%q decodes on a GPU: it needs the device cuda:N (--device cuda:0), which is %q", c.Decoder, c.Device)
	v.check(c.Decoder == "" || framed, "Decoder", "%q is unknown here: \"\", or on a GPU \"nvcomp\" or \"nvcomp=PATH\"", c.Decoder)
}
