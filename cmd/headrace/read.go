package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/atomicfile"
	"github.com/headrace/headrace/internal/export"
	"github.com/headrace/headrace/internal/npy"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/zarr"
)

// readFlags are the flags of read as given.
type readFlags struct {
	box, dtype, device, pad, axes, flip, level, out string
	padValue                                        float64
}

func (a *app) read() *cobra.Command {
	var f readFlags
	cmd := &cobra.Command{
		Use:   "read URI",
		Short: "Read a crop of an array into a .npy file",
		Long: `Read one crop of an array through the engine and write it as .npy. Boxes of any
size work: they are streamed in slabs. A box counts in the array's coordinates and
may reach outside it where --pad says what lies there.`,
		Example: `  headrace read data/smoke/z000/scale0/image --box 0:32,0:128,0:128 -o crop.npy
  headrace read image.zarr --level 1 --dtype f32 -o - | python -c 'import numpy, sys, io; print(numpy.load(io.BytesIO(sys.stdin.buffer.read())).mean())'`,
		Args: exactly("URI"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.parse(args[0], cmd.Flags().Changed("box"))
			if err != nil {
				return err
			}
			if a.json && f.out == "-" {
				return usagef("read: --json and -o - both want stdout")
			}
			return a.readCrop(cmd.Context(), r)
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.box, "box", "", "start:stop of each axis, as 0:4,10:20 (default: the whole array)")
	s.StringVar(&f.dtype, "dtype", "", "output type, as f32 or uint8 (default: the array's own)")
	s.StringVar(&f.device, "device", "cpu", "cpu, cuda:N, GPU-<uuid> or MIG-<uuid>")
	s.StringVar(&f.pad, "pad", "error", "outside of the array: error, fill, edge or reflect")
	s.Float64Var(&f.padValue, "pad-value", 0, "what --pad fill writes, in output units")
	s.StringVar(&f.axes, "axes", "", "order of the output's axes, as 2,1,0")
	s.StringVar(&f.flip, "flip", "", "axes of the array to reverse, as 0,2")
	s.StringVar(&f.level, "level", "", "level of an OME-Zarr image, by number or path (default: the finest)")
	s.StringVarP(&f.out, "output", "o", "", "file to write, - for stdout")
	choices(cmd, "pad", "error", "fill", "edge", "reflect")
	choices(cmd, "device", "cpu", "cuda:0")
	choices(cmd, "dtype", "f32", "bf16", "f16", "f64", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "bool")
	return cmd
}

// reading is a checked request.
type reading struct {
	export.Spec

	whole bool // no box was given
	own   bool // no dtype was given
	axes  []int
	flips []int
	out   string
}

// parse checks everything that can be checked without I/O.
func (f *readFlags) parse(uri string, boxed bool) (*reading, error) {
	r := &reading{whole: !boxed, own: f.dtype == "", out: f.out}
	r.Array = pipeline.ArrayRef{URI: uri, Level: f.level}
	r.PadValue, r.Device = f.padValue, pipeline.Device(f.device)
	var err error
	if f.out == "" {
		return nil, usagef("read: -o is missing: a file, or - for stdout")
	}
	if r.Box, err = nd.ParseBox(f.box); err != nil {
		return nil, usagef("--box: %v", err)
	}
	if f.dtype != "" {
		if r.DType, err = nd.ParseDType(f.dtype); err != nil {
			return nil, usagef("--dtype: %v", err)
		}
	}
	if r.Pad, err = pipeline.ParsePad(f.pad); err != nil {
		return nil, usagef("--pad %q: error, fill, edge or reflect", f.pad)
	}
	if r.axes, err = parseAxes(f.axes); err != nil {
		return nil, usagef("--axes: %v", err)
	}
	if r.flips, err = parseAxes(f.flip); err != nil {
		return nil, usagef("--flip: %v", err)
	}
	return r, nil
}

func parseAxes(text string) (axes []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not the number of an axis", part)
		}
		axes = append(axes, n)
	}
	return axes, nil
}

// fit completes the request with what the array is, and checks it against that.
func (r *reading) fit(meta *zarr.Array) error {
	rank := len(meta.Shape)
	if r.whole {
		r.Box = nd.Whole(meta.Shape)
	}
	if len(r.Box) != rank {
		return nd.Errorf(nd.ErrShape, "--box has %d axes, the array %d: its shape is %v", len(r.Box), rank, meta.Shape)
	}
	if r.Pad == pipeline.PadError && !r.Box.Within(meta.Shape) {
		return nd.Errorf(nd.ErrShape, "box %v reaches outside shape %v: choose --pad fill, edge or reflect", r.Box, meta.Shape)
	}
	if r.own {
		r.DType = meta.DType.DType
	}
	r.Chunk = meta.Leaf().Chunk
	for _, axis := range r.flips {
		if axis >= rank {
			return nd.Errorf(nd.ErrConfig, "--flip %d: the array has axes 0 to %d", axis, rank-1)
		}
		r.Flip |= 1 << axis
	}
	return r.fitAxes(rank)
}

func (r *reading) fitAxes(rank int) error {
	if r.axes == nil {
		return nil
	}
	seen := make([]bool, rank)
	for _, axis := range r.axes {
		if axis >= rank || seen[axis] {
			return nd.Errorf(nd.ErrConfig, "--axes %v is not an order of axes 0 to %d", r.axes, rank-1)
		}
		seen[axis] = true
	}
	if len(r.axes) != rank {
		return nd.Errorf(nd.ErrConfig, "--axes %v leaves out an axis: the array has %d", r.axes, rank)
	}
	r.Axes = r.axes
	return nil
}

// descr is numpy's name of what is written. Points in time keep their unit where
// no other type was asked for.
func (r *reading) descr(meta *zarr.Array) string {
	if r.own && meta.DType.Time != 0 {
		return npy.TimeDescr(meta.DType.Time, meta.DType.Unit)
	}
	return npy.Descr(r.DType)
}

// cropped is what read says of the file it wrote.
type cropped struct {
	File  string  `json:"file"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	Descr string  `json:"descr"`
	Bytes int64   `json:"bytes"`
}

func (a *app) readCrop(ctx context.Context, r *reading) error {
	meta, err := pipeline.Metadata(ctx, r.Array)
	if err != nil {
		return err
	}
	if err := r.fit(meta); err != nil {
		return nd.At(err, nd.Place{Array: r.Array.URI})
	}
	bar := a.progress()
	defer bar.end()
	r.Report = func(done, total int64) { bar.show("read", inBytes, done, total) }
	if r.out == "-" {
		return r.file(ctx, a.stdout, meta)
	}
	atomicfile.RemoveStale(r.out)
	file, err := atomicfile.Create(r.out)
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := r.file(ctx, file, meta); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.end()
	if !a.json {
		return nil
	}
	n, _ := nd.Product(r.Shape())
	return a.printJSON(cropped{r.out, r.Shape(), r.DType.Name(), r.descr(meta), n * int64(r.DType.Size())})
}

func (r *reading) file(ctx context.Context, w io.Writer, meta *zarr.Array) error {
	if n, ok := nd.Product(r.Shape()); !ok || n > math.MaxInt64/16 {
		return nd.Errorf(nd.ErrBudget, "box %v is larger than any file", r.Box)
	}
	if _, err := w.Write(npy.Header(r.descr(meta), r.Shape())); err != nil {
		return err
	}
	return r.Write(ctx, w)
}
