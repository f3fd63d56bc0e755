package session

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// request is what Session.Open is asked for: the JSON that the Python package writes.
// Open says what; the other fields depend on it.
type request struct {
	Open string `json:"open"` // pipeline, loader, source, array or read
	Dir  string `json:"dir"`  // for relative paths; "" is this process's own

	URI   string `json:"uri"` // array
	Level string `json:"level"`

	Array uint64 `json:"array"` // read: the handle of an array
	Box   spans  `json:"box"`

	Device       string    `json:"device"` // pipeline, loader
	Arrays       arrayList `json:"arrays"` // pipeline
	Fields       []field   `json:"fields"`
	BatchSize    int       `json:"batch_size"`
	OnError      string    `json:"on_error"`
	Lookahead    int       `json:"lookahead"`
	Slots        int       `json:"slots"`
	Readers      int       `json:"readers"`
	Workers      int       `json:"workers"`
	HostBytes    int64     `json:"host_bytes"`
	DecodedBytes int64     `json:"decoded_bytes"`
	DeviceBytes  int64     `json:"device_bytes"`
	MappedBytes  int64     `json:"mapped_bytes"`
	Compressed   int64     `json:"compressed_bytes"`
	Decoder      string    `json:"decoder"`
	SMs          int       `json:"sms"`
	Reuse        string    `json:"reuse"`
	Reader       string    `json:"reader"`
	Verify       bool      `json:"verify"`

	Source *sourceSpec       `json:"source"` // source, loader
	Loader *loaderSpec       `json:"loader"` // loader
	Who    who               `json:"who"`    // loader, pipeline
	Env    map[string]string `json:"env"`    // loader, pipeline

	memory func() pipeline.Memory
	// sharing is the number of ranks on the GPU that was chosen for the client; 0 where
	// it was named.
	sharing int
	driver  string // path of libcuda
	join    Join   // nil: a session that cannot
	placed  placed // pipeline, loader
}

// at is where a URI leads: a relative path is one of the client's.
func (r *request) at(uri string) string {
	if r.Dir == "" || strings.Contains(uri, "://") || filepath.IsAbs(uri) {
		return uri
	}
	return filepath.Join(r.Dir, uri)
}

func (r *request) batchMemory() pipeline.Memory {
	if r.memory == nil {
		return nil
	}
	return r.memory()
}

// arrayList is arrays, and field by field the numbers of those that feed it.
type arrayList struct {
	URIs  []string `json:"uris"`
	Feeds [][]int  `json:"feeds"`
}

func (r *request) arrayRefs(uris []string) []pipeline.ArrayRef {
	refs := make([]pipeline.ArrayRef, len(uris))
	for i, uri := range uris {
		refs[i].URI = r.at(uri)
	}
	return refs
}

// field is one output tensor.
type field struct {
	Name     string  `json:"name"`
	Shape    []int   `json:"shape"`
	DType    string  `json:"dtype"` // "" keeps the arrays' own
	Axes     []int   `json:"axes"`
	Pad      string  `json:"pad"`
	PadValue number  `json:"pad_value"`
	Scale    factors `json:"scale"`
	Offset   factors `json:"offset"`
}

// spans is a box as JSON: [[start, stop], ...].
type spans [][2]int64

func (s spans) box() nd.Box {
	box := make(nd.Box, len(s))
	for i, span := range s {
		box[i] = nd.Span{Start: span[0], Stop: span[1]}
	}
	return box
}

// number is a float as text, since JSON has no NaN and no infinity.
type number float64

func (n *number) UnmarshalJSON(text []byte) error {
	x, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
	*n = number(x)
	return err
}

// factors is null, one number, or one for each array.
type factors []float64

func (f *factors) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var one float64
	if json.Unmarshal(text, &one) == nil {
		*f = factors{one}
		return nil
	}
	var list []float64
	err := json.Unmarshal(text, &list)
	*f = list
	return err
}

// Parse reads JSON of the Python package. What it does not know is a bug on one
// of the two sides.
func Parse(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return nd.Errorf(nd.ErrBug, "the request is not what the engine reads: %w", err)
	}
	return nil
}

// config is the engine's config for these arrays; feeds has field by field the
// numbers of those that feed it.
func (r *request) config(arrays []pipeline.ArrayRef, feeds [][]int) (pipeline.Config, error) {
	c := pipeline.Config{
		Arrays: arrays, BatchSize: r.BatchSize, Device: pipeline.Device(r.Device),
		Readers: r.Readers, Workers: r.Workers, Lookahead: r.Lookahead, Slots: r.Slots,
		HostBytes: r.HostBytes, DecodedBytes: r.DecodedBytes, Reader: r.Reader, NoVerify: !r.Verify,
		DeviceBytes: r.DeviceBytes, MappedBytes: r.MappedBytes, CompressedBytes: r.Compressed,
		Decoder: r.Decoder, SMs: r.SMs, Sharing: r.sharing, Driver: r.driver,
		BatchMemory: r.batchMemory(),
	}
	if len(feeds) != len(r.Fields) {
		return c, nd.Errorf(nd.ErrBug, "%d fields, but arrays for %d", len(r.Fields), len(feeds))
	}
	var err error
	if c.OnError, err = pipeline.ParsePolicy(r.OnError); err != nil {
		return c, err
	}
	if c.Reuse, err = pipeline.ParseReuse(r.Reuse); err != nil {
		return c, err
	}
	for i := range r.Fields {
		f, err := r.Fields[i].field(feeds[i], len(arrays))
		if err != nil {
			return c, err
		}
		c.Fields = append(c.Fields, f)
	}
	return c, nil
}

func (f *field) field(feed []int, arrays int) (pipeline.Field, error) {
	out := pipeline.Field{Name: f.Name, Shape: f.Shape, Axes: f.Axes, Arrays: feed, PadValue: float64(f.PadValue)}
	var err error
	if out.Pad, err = pipeline.ParsePad(f.Pad); err != nil {
		return out, err
	}
	if f.DType != "" {
		if out.DType, err = nd.ParseDType(f.DType); err != nil {
			return out, nd.Errorf(nd.ErrConfig, "dtype of field %q: %w", f.Name, err)
		}
	}
	if out.Scale, err = spread("scale", f.Name, f.Scale, feed, arrays, 1); err != nil {
		return out, err
	}
	out.Offset, err = spread("offset", f.Name, f.Offset, feed, arrays, 0)
	return out, err
}

// spread turns one entry for each array of a field into one for each array of
// the pipeline, as Field wants it; neutral stands where the field has no array.
func spread(what, name string, list factors, feed []int, arrays int, neutral float64) ([]float64, error) {
	if len(list) <= 1 {
		return list, nil
	}
	if len(list) != len(feed) {
		return nil, nd.Errorf(nd.ErrConfig, "%s of field %q has %d entries, the field has %d arrays", what, name, len(list), len(feed))
	}
	all := make([]float64, arrays)
	for i := range all {
		all[i] = neutral
	}
	for i, a := range feed {
		all[a] = list[i]
	}
	return all, nil
}
