package pipeline

import (
	"errors"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/kernels"
)

// stage is the memory of one wave in flight on a device. It belongs to the wave
// from submit until the wave is reported done.
type stage struct {
	// On the device, all within the backend's one allocation. The encoded bytes of
	// the wave; decoded chunks that are not kept; as much again for chunks that are
	// shuffled; descriptors.
	room                         room
	in, out, scratch             cuda.Ptr
	tilesAt, loopsAt, gatheredAt cuda.Ptr

	// Pinned, for copies in both directions.
	unpacked *pinned // chunks that the host has decoded
	lists    []byte  // memory of the descriptors and the statuses
	tiles    tiles
	table    chunkTable
	status   []byte
	gathered []byte // pieces for the kernel that copies

	placed   int64 // bytes that the tiles write
	brought  int64 // bytes that are copied to the device
	fed      int64 // bytes that it decodes, as stored
	made     int64 // and as decoded
	frames   frameList
	commands cuda.Commands
	pieces   []cuda.Piece
	pieceOf  cuda.Ptr // the memory that the last of them comes from
	order    []int32  // chunks that are copied one by one, by address
	nest     nest
	params   []byte
	owed     []*pooledEvent // that the wave waits for
	compute  *cuda.Stream
	copies   *cuda.Stream // the device's; of the settler's stage, compute
	copied   *cuda.Event  // what was copied for the wave so far is on the device
	began    *cuda.Event  // the device may decode them; timed
	ended    *cuda.Event  // its chunks are decoded; timed
	kept     *cuda.Event  // its chunks are decoded, and those of all waves before it
	done     *cuda.Event  // the wave is
	ready    chan struct{}
}

const (
	// stageTiles bounds the tiles of one launch: 2^15 are 2 GiB of batches in f32.
	stageTiles = 1 << 15
	// stageLoops is what these tiles need where they have four axes each.
	stageLoops = 4 * stageTiles
	// deviceChunks bounds the chunks of a wave.
	deviceChunks = 1 << 14

	listBytes = stageTiles*kernels.TileBytes + stageLoops*kernels.LoopBytes + deviceChunks*(kernels.ChunkBytes+statusBytes+kernels.PieceBytes) + frameListBytes

	statusBytes = 4
	// guard keeps the last 16-byte word of the stored bytes readable.
	guard = 256
)

// room is what a stage has of the device beside its descriptors: for so many chunks and
// their bytes, stored, decoded and shuffled.
type room struct {
	chunks                    int
	encoded, decoded, scratch int64
}

// in and out are the bytes of the parts for stored and for decoded chunks. Chunks begin at
// multiples of the grain, which makes tiny ones larger.
func (r room) in() int64 { return align(r.encoded + guard) }

func (r room) out() int64 { return align(r.decoded + int64(r.chunks)*arenaGrain) }

// bytes is all that a stage takes of the device.
func (r room) bytes() int64 {
	return r.in() + r.out() + align(r.scratch) + align(listBytes)
}

// align rounds up to the grain of arenas.
func align(n int64) int64 { return (n + arenaGrain - 1) &^ (arenaGrain - 1) }

// newStage lays a stage out from at on.
func (d *device) newStage(at cuda.Ptr, r room, unpacked int64) (_ *stage, err error) {
	gpu := d.gpu
	s := &stage{room: r, ready: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.free(gpu))
		}
	}()
	next := func(n int64) cuda.Ptr {
		p := at
		at += cuda.Ptr(align(n))
		return p
	}
	s.in, s.out, s.scratch = next(r.in()), next(r.out()), next(r.scratch)
	s.tilesAt = at
	s.loopsAt = s.tilesAt + stageTiles*kernels.TileBytes
	s.table.at = s.loopsAt + stageLoops*kernels.LoopBytes
	s.table.states = s.table.at + deviceChunks*kernels.ChunkBytes
	s.gatheredAt = s.table.states + deviceChunks*statusBytes
	s.frames.at = s.gatheredAt + deviceChunks*kernels.PieceBytes

	if unpacked > 0 {
		if s.unpacked, err = d.pin(unpacked); err != nil {
			return nil, err
		}
	}
	if s.lists, err = gpu.AllocHost(listBytes); err != nil {
		return nil, err
	}
	cut := func(n int) []byte {
		part := s.lists[:0:n]
		s.lists = s.lists[n:]
		return part
	}
	whole := s.lists
	s.tiles.tiles, s.tiles.loops = cut(stageTiles*kernels.TileBytes), cut(stageLoops*kernels.LoopBytes)
	s.table.list = cut(deviceChunks * kernels.ChunkBytes)
	s.status = cut(deviceChunks * statusBytes)
	s.gathered = cut(deviceChunks * kernels.PieceBytes)
	for i := range s.frames.args {
		s.frames.args[i] = cut(frameArgs / 4)
	}
	s.frames.results = cut(frameResults)[:frameResults]
	s.lists = whole
	for _, e := range []**cuda.Event{&s.copied, &s.kept, &s.done, &s.frames.done} {
		if *e, err = gpu.NewEvent(false); err != nil {
			return nil, err
		}
	}
	for _, e := range []**cuda.Event{&s.began, &s.ended} {
		if *e, err = gpu.NewTimedEvent(); err != nil {
			return nil, err
		}
	}
	// Low priority: where the trainer's kernels wait for room, ours come second.
	if s.compute, err = gpu.NewStream(cuda.LowPriority); err != nil {
		return nil, err
	}
	s.copies = d.copies
	return s, nil
}

func (s *stage) free(gpu *cuda.Device) error {
	var errs []error
	if s.compute != nil {
		errs = append(errs, s.compute.Close())
	}
	for _, e := range []*cuda.Event{s.copied, s.began, s.ended, s.kept, s.done, s.frames.done} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	errs = append(errs, s.unpacked.free(gpu))
	if s.lists != nil {
		errs = append(errs, gpu.FreeHost(s.lists))
	}
	return errors.Join(errs...)
}
