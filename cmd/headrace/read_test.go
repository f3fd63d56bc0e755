package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/plainread"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/store"
	"github.com/headrace/headrace/zarr"
)

// npyFile is a parsed .npy file.
type npyFile struct {
	descr string
	shape []int64
	data  []byte
}

var npyHeader = regexp.MustCompile(`^{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), } *\n$`)

func parseNPY(t *testing.T, file []byte) npyFile {
	t.Helper()
	if !bytes.HasPrefix(file, []byte("\x93NUMPY\x01\x00")) {
		t.Fatalf("not a .npy file: %.40q", file)
	}
	size := 10 + int(binary.LittleEndian.Uint16(file[8:]))
	m := npyHeader.FindSubmatch(file[10:size])
	if m == nil {
		t.Fatalf("header %q", file[:size])
	}
	f := npyFile{descr: string(m[1]), shape: []int64{}, data: file[size:]}
	for part := range strings.SplitSeq(string(m[2]), ",") {
		if part = strings.TrimSpace(part); part != "" {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			f.shape = append(f.shape, n)
		}
	}
	return f
}

// crop runs read into a file.
func crop(t *testing.T, args ...string) npyFile {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.npy")
	must(t, append([]string{"read", "-o", out}, args...)...)
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return parseNPY(t, file)
}

// plain is the same crop by the plain reader.
func plain(t *testing.T, dir, box string, to nd.DType) []byte {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(dir, "zarr.json"))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := zarr.ParseArray(doc)
	if err != nil {
		t.Fatal(err)
	}
	r, err := plainread.New(store.NewFile(dir, store.Options{}), "", meta, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b := nd.Whole(meta.Shape)
	if box != "" {
		if b, err = nd.ParseBox(box); err != nil {
			t.Fatal(err)
		}
	}
	data, err := r.Read(t.Context(), b, to)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every element type comes out under numpy's name, with the bytes of a plain
// read.
func TestReadTypes(t *testing.T) {
	names := strings.Fields("|b1 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 <f2 <V2 <f4 <f8 <c8 <c16")
	for i, d := range nd.DTypes() {
		a := volume()
		a.DType, a.Field = d, "mask50"
		dir := array(t, a, `["big","gzip"]`)
		f := crop(t, dir, "--box", "1:12,3:20,0:34")
		if f.descr != names[i] || !equal(f.shape, 11, 17, 34) {
			t.Errorf("%v: %s %v", d, f.descr, f.shape)
		}
		if !bytes.Equal(f.data, plain(t, dir, "1:12,3:20,0:34", d)) {
			t.Errorf("%v: other bytes than a plain read", d)
		}
	}
}

func equal(got []int64, want ...int64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

// Without a box the whole array; with a type, the engine's conversion.
func TestReadWholeAndConverted(t *testing.T) {
	a := volume()
	a.Shard = []int64{8, 16, 32}
	dir := array(t, a, `"zstd"`)
	f := crop(t, dir, "--dtype", "f32")
	if f.descr != "<f4" || !equal(f.shape, 13, 21, 34) || !bytes.Equal(f.data, plain(t, dir, "", nd.F32)) {
		t.Errorf("whole array as f32: %s %v", f.descr, f.shape)
	}
	r := parsed(t, must(t, "read", dir, "--json", "--dtype", "uint8", "-o", filepath.Join(t.TempDir(), "x.npy")))
	hasKeys(t, r, "file shape dtype descr bytes")
	if r["dtype"] != "uint8" || r["bytes"] != float64(13*21*34) {
		t.Errorf("read says %v", r)
	}
}

// Outside of the array lies what --pad says, numpy's reflection included.
func TestReadPads(t *testing.T) {
	root := files(t, map[string]string{
		"zarr.json": v3("[4]", "uint8", "[2]", 0), "c/0": "\x0a\x0b", "c/1": "\x0c\x0d",
	})
	f := func(want string, args ...string) {
		t.Helper()
		got := crop(t, append([]string{root, "--box=-3:6"}, args...)...)
		if text := strings.Join(strings.Fields(strings.Trim(jsonOf(t, got.data), "[]")), " "); text != want {
			t.Errorf("%v: %s, want %s", args, text, want)
		}
	}
	f("0,0,0,10,11,12,13,0,0", "--pad", "fill")
	f("9,9,9,10,11,12,13,9,9", "--pad", "fill", "--pad-value", "9")
	f("10,10,10,10,11,12,13,13,13", "--pad", "edge")
	f("13,12,11,10,11,12,13,12,11", "--pad", "reflect")
	f("11,12,13,12,11,10,11,12,13", "--pad", "reflect", "--flip", "0")
	fails(t, 1, []string{"read", root, "--box=-3:6", "-o", filepath.Join(root, "x.npy")}, "reaches outside", "--pad")
}

// jsonOf shows bytes as numbers.
func jsonOf(t *testing.T, data []byte) string {
	t.Helper()
	numbers := make([]int, len(data))
	for i, b := range data {
		numbers[i] = int(b)
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// v3 is a document of an array without compression.
func v3(shape, dtype, chunk string, fill any) string {
	doc, _ := json.Marshal(map[string]any{
		"zarr_format": 3, "node_type": "array", "shape": json.RawMessage(shape), "data_type": json.RawMessage(quoted(dtype)),
		"chunk_grid":         map[string]any{"name": "regular", "configuration": map[string]any{"chunk_shape": json.RawMessage(chunk)}},
		"chunk_key_encoding": map[string]any{"name": "default"},
		"fill_value":         fill, "codecs": []any{map[string]any{"name": "bytes", "configuration": map[string]any{"endian": "little"}}},
	})
	return string(doc)
}

func quoted(dtype string) string {
	if strings.HasPrefix(dtype, "{") {
		return dtype
	}
	return `"` + dtype + `"`
}

// Axes and flips are applied as in the engine: the crop is read, flipped, and
// its axes put in another order.
func TestReadAxes(t *testing.T) {
	root := files(t, map[string]string{"zarr.json": v3("[2,3]", "uint8", "[2,3]", 0), "c/0/0": "\x01\x02\x03\x04\x05\x06"})
	f := func(want string, shape []int64, args ...string) {
		t.Helper()
		got := crop(t, append([]string{root}, args...)...)
		if jsonOf(t, got.data) != want || !equal(got.shape, shape...) {
			t.Errorf("%v: %v %s, want %v %s", args, got.shape, jsonOf(t, got.data), shape, want)
		}
	}
	f("[1,4,2,5,3,6]", []int64{3, 2}, "--axes", "1,0")
	f("[3,2,1,6,5,4]", []int64{2, 3}, "--flip", "1")
	f("[6,3,5,2,4,1]", []int64{3, 2}, "--axes", "1,0", "--flip", "0,1")
	for _, args := range [][]string{{"--axes", "0,0"}, {"--axes", "1"}, {"--axes", "0,1,2"}, {"--flip", "2"}} {
		fails(t, 2, append([]string{"read", root, "-o", "-"}, args...), args[0])
	}
}

// Times keep their unit, 0-d and empty arrays their shape, and missing chunks are
// the fill value.
func TestReadOddArrays(t *testing.T) {
	times := files(t, map[string]string{"zarr.json": v3("[3]", `{"name":"numpy.datetime64","configuration":{"unit":"ns","scale_factor":1}}`, "[3]", "NaT")})
	f := crop(t, times)
	if f.descr != "<M8[ns]" || int64(binary.LittleEndian.Uint64(f.data)) != math.MinInt64 {
		t.Errorf("datetime: %s %v", f.descr, f.data)
	}
	if f = crop(t, times, "--dtype", "i64"); f.descr != "<i8" {
		t.Errorf("datetime as i64: %s", f.descr)
	}
	spans := files(t, map[string]string{".zarray": `{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"<m8[s]","compressor":null,"fill_value":5,"order":"C","filters":null}`})
	if f = crop(t, spans); f.descr != "<m8[s]" || f.data[0] != 5 {
		t.Errorf("timedelta: %s %v", f.descr, f.data)
	}
	scalar := files(t, map[string]string{"zarr.json": v3("[]", "int32", "[]", 0), "c": "\x2a\x00\x00\x00"})
	if f = crop(t, scalar); !equal(f.shape) || !bytes.Equal(f.data, []byte{42, 0, 0, 0}) {
		t.Errorf("0-d: %v %v", f.shape, f.data)
	}
	empty := files(t, map[string]string{"zarr.json": v3("[0,7]", "float64", "[2,2]", 0)})
	if f = crop(t, empty); !equal(f.shape, 0, 7) || len(f.data) != 0 {
		t.Errorf("empty: %v %v", f.shape, f.data)
	}
	if f = crop(t, times, "--box", "1:1"); !equal(f.shape, 0) || len(f.data) != 0 {
		t.Errorf("empty box: %v %v", f.shape, f.data)
	}
}

// A level of an OME-Zarr image is named by number or path; the image itself is
// its finest level.
func TestReadLevels(t *testing.T) {
	root := image(t)
	for _, c := range []struct {
		args  []string
		shape int64
	}{{nil, 4}, {[]string{"--level", "0"}, 4}, {[]string{"--level", "1"}, 2}, {[]string{"--level", "half"}, 2}} {
		if f := crop(t, append([]string{root}, c.args...)...); !equal(f.shape, c.shape, c.shape) {
			t.Errorf("%v: shape %v", c.args, f.shape)
		}
	}
	fails(t, 1, []string{"read", root, "--level", "2", "-o", "-"}, "not found", "2")
	fails(t, 1, []string{"read", filepath.Join(root, "full"), "--level", "0", "-o", "-"}, "level")
}

// image is an OME-Zarr 0.4 image of two levels.
func image(t *testing.T) string {
	t.Helper()
	level := func(n string) string {
		return `{"zarr_format":2,"shape":[` + n + `,` + n + `],"chunks":[2,2],"dtype":"|u1","compressor":null,"fill_value":3,"order":"C","filters":null,"dimension_separator":"/"}`
	}
	return files(t, map[string]string{
		".zgroup": `{"zarr_format":2}`,
		".zattrs": `{"multiscales":[{"version":"0.4","name":"cells","axes":[{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space"}],
			"datasets":[{"path":"full","coordinateTransformations":[{"type":"scale","scale":[1,1]}]},{"path":"half","coordinateTransformations":[{"type":"scale","scale":[2,2]}]}]}]}`,
		"full/.zarray": level("4"), "half/.zarray": level("2"),
	})
}

// A failure leaves neither a file nor a part of one, and says what and where.
func TestReadFailures(t *testing.T) {
	dir := array(t, volume(), `["zstd","crc32c"]`)
	folder := t.TempDir()
	out := filepath.Join(folder, "x.npy")
	fails(t, 1, []string{"read", filepath.Join(folder, "absent"), "-o", out}, "not found", "absent")
	fails(t, 1, []string{"read", folder, "-o", out}, "zarr.json", ".zarray")
	fails(t, 1, []string{"read", dir, "--box", "0:4,0:4", "-o", out}, "--box has 2 axes, the array 3")
	fails(t, 1, []string{"read", dir, "-o", filepath.Join(folder, "no", "x.npy")}, "folder does not exist")
	fails(t, 1, []string{"read", dir, "--device", "cuda:99", "-o", out}, "device error") // no driver, or no such GPU
	fails(t, 1, []string{"read", "s3://bucket/key", "-o", out}, "s3 comes later")

	chunk := filepath.Join(dir, "c/1/0/0")
	data, err := os.ReadFile(chunk)
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 0xff
	if err := os.WriteFile(chunk, data, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, 1, []string{"read", dir, "-o", out}, "corrupt data", "c/1/0/0", "crc32c")
	if left := tree(t, folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if f := crop(t, dir, "--box", "0:4,0:21,0:34"); !bytes.Equal(f.data, plain(t, dir, "0:4,0:21,0:34", nd.U16)) {
		t.Error("a box without the bad chunk is not read")
	}
}
