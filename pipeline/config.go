package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
)

// ArrayRef names one array.
type ArrayRef struct {
	// URI is a path or file:// URI of an array, or of a group with OME
	// multiscales when Level is set.
	URI string
	// Level picks a level of the multiscales by index ("0" is the finest) or by
	// path ("scale1/image"). "" means that URI is the array itself, or level 0 of
	// the multiscales that lie there.
	Level string
	// Store, if set, holds the array; URI is then a path within it.
	Store store.Store
}

// Pad says what the part of a box outside its array becomes.
type Pad uint8

const (
	// PadError fails the sample with nd.ErrShape.
	PadError Pad = iota
	// PadFill writes Field.PadValue, in output units.
	PadFill
	// PadEdge repeats the nearest element of the array.
	PadEdge
	// PadReflect mirrors the array without repeating its border, as numpy's
	// "reflect" does, folding as often as needed; an axis of extent 1 repeats.
	PadReflect
)

var padNames = [...]string{"error", "fill", "edge", "reflect"}

func (p Pad) String() string { return nameOf(padNames[:], int(p)) }

// ParsePad reads "error", "fill", "edge" or "reflect".
func ParsePad(name string) (Pad, error) {
	i, err := parseName("pad", padNames[:], name)
	return Pad(i), err
}

// Policy says what a bad sample does to its batch.
type Policy uint8

const (
	// Raise makes Next return a *BatchError in place of the batch; the batches after
	// it are not affected.
	Raise Policy = iota
	// Skip leaves the sample out: the batch is shorter.
	Skip
	// Fill writes the fill value of the sample's arrays, scaled like data.
	Fill
)

var policyNames = [...]string{"raise", "skip", "fill"}

func (p Policy) String() string { return nameOf(policyNames[:], int(p)) }

// ParsePolicy reads "raise", "skip" or "fill".
func ParsePolicy(name string) (Policy, error) {
	i, err := parseName("on_error", policyNames[:], name)
	return Policy(i), err
}

// Reuse says how long a decoded chunk is kept for further uses.
type Reuse uint8

const (
	// ReuseWindow decodes a chunk once for all its uses within the look-ahead.
	ReuseWindow Reuse = iota
	// ReuseNone decodes a chunk for every use.
	ReuseNone
	// ReuseBatch decodes each distinct chunk once a batch.
	ReuseBatch
	// ReuseCache also keeps chunks without a known next use while they fit.
	ReuseCache
)

var reuseNames = [...]string{"window", "none", "batch", "cache"}

func (r Reuse) String() string { return nameOf(reuseNames[:], int(r)) }

// ParseReuse reads "none", "batch", "window" or "cache".
func ParseReuse(name string) (Reuse, error) {
	i, err := parseName("reuse", reuseNames[:], name)
	return Reuse(i), err
}

// Device is where batches are made: "cpu", or a GPU by its number in this process,
// "cuda:N", or by its UUID or the start of it, "GPU-..." or "MIG-..." as nvidia-smi -L
// prints it; "" is the CPU.
type Device string

// Field is one output tensor of every batch, of shape [N, extents...].
type Field struct {
	Name string
	// Shape is the extent of a crop along each axis of its array.
	Shape []int
	// Axes permutes: axis i of the tensor (after the batch axis) is axis Axes[i] of
	// the array. nil keeps the order.
	Axes []int
	// DType of the tensor; nd.Invalid keeps the arrays' own type, on which all
	// arrays of the field must then agree. With Scale or Offset it must be given
	// where the arrays hold integers.
	DType nd.DType
	// Arrays lists the arrays that may feed this field, by index; nil means all.
	Arrays   []int
	Pad      Pad
	PadValue float64
	// Scale and Offset turn a stored value v into float64(v)*Scale + Offset, each
	// step rounded, before the conversion to DType. Empty means none, one entry
	// serves all arrays, otherwise there is one entry for each of Config.Arrays.
	Scale, Offset []float64
}

// Config describes a pipeline. Fields left at zero take the default named beside
// them; Validate reports every impossible value at once.
type Config struct {
	Arrays    []ArrayRef
	Fields    []Field
	BatchSize int
	Device    Device

	// Readers is the number of goroutines that read. Default 4: enough to keep a
	// local disk's queue busy, and a page-cache hit never waits. On a GPU, which takes
	// more than four cores copy into the ring, as many as there are cores, at most 16.
	Readers int
	// Workers is the number of goroutines that decode and assemble on the host; on a
	// GPU they decode what has no kernel. Default: the cores this process may use (GOMAXPROCS).
	Workers int
	// Lookahead is the number of samples that are planned ahead of the one being
	// decoded, at least BatchSize. Default 4 x BatchSize: the window in which a
	// chunk is decoded once. Push takes two batches more before it blocks: they are
	// not planned yet, and fill the window up between two calls of Push.
	Lookahead int
	// Slots is the number of batches that can exist at once, in the making, ready
	// or held by the consumer. Default 3: one held, one ready, one in the making.
	Slots int

	// HostBytes caps the host memory of the pipeline: the ring, indexes and the workers'
	// scratch, and what is not on a GPU: slots, the decoded cache, or else the pinned
	// buffers beside it. Default: what the other fields need, plus DecodedBytes on the
	// host, with a ring of at most 1 GiB on a GPU.
	HostBytes int64
	// DeviceBytes caps the memory that is taken of a GPU. Default: a quarter of what is
	// free, at most 8 GiB, divided by Sharing.
	DeviceBytes int64
	// Sharing is the number of ranks, each with a pipeline, that use the same GPU.
	// Default 1.
	Sharing int
	// MappedBytes caps the page cache that is registered with a GPU; it counts beside
	// HostBytes. Default 4 GiB.
	MappedBytes int64
	// CompressedBytes caps the stored bytes of chunks that are kept on a GPU, within
	// DeviceBytes. Default 0: none.
	CompressedBytes int64
	// DecodedBytes caps the decoded chunks that are kept for later uses, on a GPU
	// within DeviceBytes. Default: what HostBytes (DeviceBytes) leaves, on the host
	// 256 MiB where HostBytes is not given.
	DecodedBytes int64

	// BatchMemory is where batches lie on the host: nil is memory of this process. One
	// that others can map serves batches to them. Of one that is a DeviceMemory a GPU
	// uses what that adds.
	BatchMemory Memory

	// Driver is the path of libcuda; "" is the system's.
	Driver string

	// Reader is how files are read: "ring" (pread into a ring), "direct" (the same past
	// the page cache, for cold files), "uring" (direct through io_uring, in builds with
	// the tag uring), on a GPU "mapped" (from the page cache where it holds a file), or
	// "" for mapped on a GPU and ring elsewhere. Direct and uring are for arrays that
	// the pipeline opens; an ArrayRef.Store reads as it was made to.
	Reader string
	// Decoder is who decodes zstd on a GPU: "" for kernels of our own, "nvcomp" or
	// "nvcomp=PATH" for that library, to compare with.
	Decoder string
	Reuse   Reuse
	// SMs caps the multiprocessors of a GPU that our kernels take at once; 0 is no cap.
	SMs int
	// NoVerify leaves the checksums of the formats unchecked, save where a decoder of the
	// host looks at them anyway. They are checked by default, on every device.
	NoVerify bool
	OnError  Policy
	Listener *Listener
}

const maxRank = 32

// Validate reports every violation that can be seen without I/O, joined; each
// matches nd.ErrConfig and names its field.
func (c *Config) Validate() error {
	v := &violations{}
	v.check(len(c.Arrays) > 0, "Arrays", "is empty: name at least one array")
	for i, a := range c.Arrays {
		v.check(a.URI != "" || a.Store != nil, fmt.Sprintf("Arrays[%d].URI", i), "is empty")
	}
	v.check(len(c.Fields) > 0, "Fields", "is empty: describe at least one output tensor")
	seen := map[string]bool{}
	for i := range c.Fields {
		c.Fields[i].validate(v, fmt.Sprintf("Fields[%d]", i), len(c.Arrays))
		v.check(!seen[c.Fields[i].Name], fmt.Sprintf("Fields[%d].Name", i), "%q is used twice", c.Fields[i].Name)
		seen[c.Fields[i].Name] = true
	}
	v.check(c.BatchSize > 0, "BatchSize", "is %d, must be at least 1", c.BatchSize)
	v.check(c.BatchSize <= math.MaxInt32, "BatchSize", "is %d, must be below 2^31", c.BatchSize)
	v.check(c.Lookahead == 0 || c.Lookahead >= c.BatchSize && c.Lookahead <= math.MaxInt32, "Lookahead", "is %d, must be at least BatchSize %d and below 2^31", c.Lookahead, c.BatchSize)
	v.count("Readers", c.Readers, 1024)
	v.count("Workers", c.Workers, 1024)
	v.count("Slots", c.Slots, 1024)
	v.count("SMs", c.SMs, math.MaxInt32)
	v.count("Sharing", c.Sharing, math.MaxInt32)
	v.bytes("HostBytes", c.HostBytes)
	v.bytes("MappedBytes", c.MappedBytes)
	v.bytes("DeviceBytes", c.DeviceBytes)
	v.bytes("CompressedBytes", c.CompressedBytes)
	v.bytes("DecodedBytes", c.DecodedBytes)
	if err := c.Device.check(); err != nil {
		v.check(false, "Device", "%v", err)
	}
	gpu := c.Device.gpu()
	_, known := c.access()
	v.check(known || gpu && c.Reader == "mapped", "Reader", "%q is unknown here: \"ring\", \"direct\", \"uring\", on a GPU \"mapped\", or \"\"", c.Reader)
	c.checkDecoder(v)
	v.check(int(c.Reuse) < len(reuseNames), "Reuse", "is %d", c.Reuse)
	v.check(int(c.OnError) < len(policyNames), "OnError", "is %d", c.OnError)
	return v.err()
}

// access is how the store reads for the reader; false for one that is unknown or
// for a GPU only.
func (c *Config) access() (store.Access, bool) {
	switch c.Reader {
	case "", "ring":
		return store.Buffered, true
	case "direct":
		return store.Direct, true
	case "uring":
		return store.Uring, true
	}
	return store.Buffered, false
}

func (f *Field) validate(v *violations, at string, arrays int) {
	v.check(f.Name != "", at+".Name", "is empty")
	v.check(len(f.Shape) <= maxRank, at+".Shape", "has %d axes, at most %d", len(f.Shape), maxRank)
	for i, n := range f.Shape {
		v.check(n > 0 && n < math.MaxInt32, fmt.Sprintf("%s.Shape[%d]", at, i), "is %d, must be in [1, 2^31)", n)
	}
	v.check(f.Axes == nil || isPermutation(f.Axes, len(f.Shape)), at+".Axes", "%v is not a permutation of the %d axes of Shape", f.Axes, len(f.Shape))
	v.check(f.DType == nd.Invalid || f.DType.Valid(), at+".DType", "is %d", f.DType)
	v.check(int(f.Pad) < len(padNames), at+".Pad", "is %d", f.Pad)
	for _, a := range f.Arrays {
		v.check(a >= 0 && a < arrays, at+".Arrays", "names array %d of %d", a, arrays)
	}
	for _, p := range []struct {
		name   string
		values []float64
	}{{".Scale", f.Scale}, {".Offset", f.Offset}} {
		n := len(p.values)
		v.check(n <= 1 || n == arrays, at+p.name, "has %d entries: none, one, or one for each of the %d arrays", n, arrays)
		for _, x := range p.values {
			v.check(!math.IsNaN(x) && !math.IsInf(x, 0), at+p.name, "holds %v", x)
		}
	}
}

func (d Device) check() error {
	if d.gpu() || d == "" || d == "cpu" {
		return nil
	}
	return fmt.Errorf("is %q: want \"cpu\", \"cuda:N\", \"GPU-<uuid>\" or \"MIG-<uuid>\"", string(d))
}

func (d Device) gpu() bool { return cuda.IsName(string(d)) }

// violations collects what is wrong with a config.
type violations struct{ list []error }

func (v *violations) check(ok bool, field, format string, args ...any) {
	if !ok {
		v.list = append(v.list, nd.Errorf(nd.ErrConfig, "%s %s", field, fmt.Sprintf(format, args...)))
	}
}

func (v *violations) count(field string, n, limit int) {
	v.check(n >= 0 && n <= limit, field, "is %d, must be in [0, %d]; 0 is the default", n, limit)
}

func (v *violations) bytes(field string, n int64) {
	v.check(n >= 0 && n <= maxSlotBytes, field, "is %d bytes, must be in [0, 2^48]; 0 is the default", n)
}

func (v *violations) err() error { return errors.Join(v.list...) }

func isPermutation(axes []int, rank int) bool {
	if len(axes) != rank {
		return false
	}
	var seen [maxRank]bool
	for _, a := range axes {
		if a < 0 || a >= rank || seen[a] {
			return false
		}
		seen[a] = true
	}
	return true
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

func parseName(what string, names []string, name string) (int, error) {
	for i, n := range names {
		if strings.EqualFold(n, name) {
			return i, nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "%s %q is unknown: one of %s", what, name, strings.Join(names, ", "))
}
