package main

// #include <stdlib.h>
// #include "headrace.h"
import "C"

import (
	"context"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/headrace/headrace/companion/session"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/pipeline"
)

// lib is the library's one root; see type library.
var lib = newLibrary(os.Stderr)

func main() {}

// export runs the body of an exported function and fills the caller's error.
func export(out *C.hr_error, body func() (status, error)) C.int32_t {
	// A new thread inherits the floating-point mode of the one that starts it, and a
	// trainer's thread may flush subnormal numbers to zero. The runtime leaves the
	// starting of threads to a thread of its own while the caller's is locked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	st, err := lib.Guard(body)
	if err == nil {
		return C.int32_t(st)
	}
	code, kind := session.KindOf(err)
	out.code = C.int32_t(code)
	out.kind = C.CString(kind)
	out.message = C.CString(err.Error())
	return C.HR_ERROR
}

//export hr_abi_version
func hr_abi_version() C.int32_t { return C.HR_ABI_VERSION }

// hr_free frees what the library allocated for the caller; NULL is fine.
//
//export hr_free
func hr_free(p unsafe.Pointer) { C.free(p) }

// hr_start prepares the library for {"env": {...}}: it takes this rank's share of
// the node's cores, and tells the pipe to which the tokens of batches go.
//
//export hr_start
func hr_start(options *C.char, releaseFD *C.int32_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		var o struct {
			Env map[string]string `json:"env"`
		}
		if err := session.Parse(text(options), &o); err != nil {
			return failed, err
		}
		limitCores(o.Env)
		fd, err := lib.releaseFD()
		*releaseFD = C.int32_t(fd)
		return done, err
	})
}

// hr_open starts to open what a request asks for; hr_wait gives its handle and
// description.
//
//export hr_open
func hr_open(what *C.char, call *C.uint64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		request := text(what)
		*call = C.uint64_t(lib.start(func(ctx context.Context) outcome {
			handle, about, err := lib.Open(ctx, request)
			return outcome{handle, about, err}
		}))
		return done, nil
	})
}

// hr_call starts to ask an object for something; hr_wait gives the answer.
//
//export hr_call
func hr_call(handle C.uint64_t, method, argument *C.char, call *C.uint64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		name, arg := C.GoString(method), text(argument)
		*call = C.uint64_t(lib.start(func(ctx context.Context) outcome {
			json, err := lib.Ask(ctx, uint64(handle), name, arg)
			return outcome{json: json, err: err}
		}))
		return done, nil
	})
}

// hr_wait waits for a call: HR_OK once it has its result, HR_AGAIN after the
// timeout. A call can be waited for until it has given its result.
//
//export hr_wait
func hr_wait(call C.uint64_t, timeoutMS C.int32_t, result *C.hr_result, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		o, st, err := lib.wait(uint64(call), milliseconds(timeoutMS))
		if err == nil && st == done {
			result.handle = C.uint64_t(o.handle)
			result.json = document(o.json)
		}
		return st, err
	})
}

// hr_cancel gives a call up: what it opens is closed again. Closing goes on.
//
//export hr_cancel
func hr_cancel(call C.uint64_t) {
	var unused C.hr_error // cancel has no error, and a poisoned library nothing to cancel
	export(&unused, func() (status, error) {
		lib.cancel(uint64(call))
		return done, nil
	})
	C.free(unsafe.Pointer(unused.kind))
	C.free(unsafe.Pointer(unused.message))
}

// hr_close starts to close an object. Its handle is invalid from here on; what
// waits on it in another thread fails with kind "closed".
//
//export hr_close
func hr_close(handle C.uint64_t, call *C.uint64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		c, err := lib.closeObject(uint64(handle))
		*call = C.uint64_t(c)
		return done, err
	})
}

// hr_push gives one batch of samples to a pipeline, as n numbers: for each sample
// its id, then for each field array, flip, rank, and start and stop of each axis.
// HR_AGAIN: there is no room, and nothing was taken.
//
//export hr_push
func hr_push(handle C.uint64_t, words *C.int64_t, n C.int64_t, samples C.int32_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		return lib.Push(uint64(handle), unsafe.Slice((*int64)(words), int(n)), int(samples))
	})
}

// hr_next waits for the next batch of a pipeline, loader or read. HR_AGAIN: none
// within the timeout. HR_END: the end of the epoch, or of what was finished.
//
//export hr_next
func hr_next(handle C.uint64_t, timeoutMS C.int32_t, batch *C.hr_batch, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		return lib.Next(context.Background(), uint64(handle), milliseconds(timeoutMS), func(d session.Delivery, token uint64) error {
			return fill(batch, d, token)
		})
	})
}

// hr_use notes that a batch is used on a stream of its GPU, as DLPack numbers streams
// (2 is that of the calling thread, -1 one that is not known): its memory is not
// written again before what the stream has when the token comes back is done. The
// stream must not be destroyed: whoever cannot promise that says -1.
//
//export hr_use
func hr_use(token C.uint64_t, stream C.int64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) { return done, lib.Use(uint64(token), int64(stream)) })
}

// hr_after is hr_use for what the stream has now; it may be destroyed afterwards.
//
//export hr_after
func hr_after(token C.uint64_t, stream C.int64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) { return done, lib.After(uint64(token), int64(stream)) })
}

// hr_copy copies a tensor of a batch, by its number, to memory of the host, which has
// exactly the tensor's bytes. It waits for the copy.
//
//export hr_copy
func hr_copy(token C.uint64_t, tensor C.int32_t, to unsafe.Pointer, bytes C.int64_t, out *C.hr_error) C.int32_t {
	return export(out, func() (status, error) {
		return done, lib.Copy(uint64(token), int(tensor), unsafe.Slice((*byte)(to), int(bytes)))
	})
}

// fill describes a batch to the caller. The token comes last: until then the
// batch is still the library's.
func fill(out *C.hr_batch, d session.Delivery, token uint64) error {
	fields, samples := d.Batch.Fields(), d.Batch.Samples()
	if len(fields) > int(out.tensor_room) || len(samples) > int(out.id_room) {
		return nd.Errorf(nd.ErrBug, "a batch of %d fields and %d samples, the caller has room for %d and %d",
			len(fields), len(samples), out.tensor_room, out.id_room)
	}
	tensors := unsafe.Slice(out.tensors, int(out.tensor_room))
	for i := range fields {
		describe(&tensors[i], d.Batch, i)
	}
	ids := unsafe.Slice((*int64)(out.ids), int(out.id_room))
	for i := range samples {
		ids[i] = samples[i].ID
	}
	meta := d.Batch.Meta()
	out.tensors_out, out.samples = C.int32_t(len(fields)), C.int64_t(len(samples))
	out.epoch, out.step = C.int64_t(meta.Epoch), C.int64_t(meta.Step)
	out.view, out.turn = C.int64_t(meta.View), C.int64_t(meta.Turn)
	out.weight, out.errors = C.double(d.Weight), document(d.Errors)
	*out.token = C.uint64_t(token)
	return nil
}

func describe(out *C.hr_tensor, b *pipeline.Batch, i int) {
	t := b.TensorAt(i)
	out.data = C.uint64_t(t.Address)
	if len(t.Data) > 0 {
		out.data = C.uint64_t(uintptr(unsafe.Pointer(&t.Data[0])))
	}
	out.dtype, out.device_type, out.device_id = C.int32_t(t.DType), deviceCPU, 0
	if ordinal, ok := b.GPU(); ok {
		out.device_type, out.device_id = deviceCUDA, C.int32_t(ordinal)
	}
	out.ndim = C.int32_t(len(t.Shape))
	for i, n := range t.Shape {
		out.shape[i] = C.int64_t(n)
	}
}

// DLPack's numbers of host memory and of a GPU's.
const (
	deviceCPU  = 1
	deviceCUDA = 2
)

func milliseconds(n C.int32_t) time.Duration { return time.Duration(max(0, n)) * time.Millisecond }

func text(s *C.char) []byte { return []byte(C.GoString(s)) }

// document is JSON for the caller, NULL if there is none.
func document(json []byte) *C.char {
	if len(json) == 0 {
		return nil
	}
	return C.CString(string(json))
}
