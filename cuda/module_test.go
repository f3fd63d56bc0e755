package cuda_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// testPTX adds a value to each of n bytes.
const testPTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry hr_test_add(.param .u64 dst, .param .u32 n, .param .u32 value)
{
	.reg .pred %p1;
	.reg .b32 %r<8>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [dst];
	ld.param.u32 %r1, [n];
	ld.param.u32 %r2, [value];
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.u32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r6, %r1;
	@%p1 bra DONE;
	cvt.u64.u32 %d2, %r6;
	add.u64 %d3, %d1, %d2;
	ld.u8 %r7, [%d3];
	add.u32 %r7, %r7, %r2;
	st.u8 [%d3], %r7;
DONE:
	ret;
}
`

func addParams(dst cuda.Ptr, n, value uint32) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(dst))
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, n), value)
}

func (r *rig) add() cuda.Function {
	r.t.Helper()
	module := must(r.LoadModule([][]byte{[]byte(testPTX)}))(r.t)
	return must(module.Function("hr_test_add"))(r.t)
}

func TestLaunch(t *testing.T) {
	r := open(t)
	f := r.add()
	attributes := must(f.Attributes())(t)
	t.Logf("%+v", attributes)
	if attributes.Registers < 1 || attributes.MaxThreads < 256 || attributes.LocalMemory != 0 {
		t.Errorf("attributes %+v", attributes)
	}
	if blocks := must(f.BlocksPerSM(256, 0))(t); blocks < 1 || blocks > 64 {
		t.Errorf("%d blocks on a multiprocessor", blocks)
	}
	const n = 1000
	p := r.alloc(2 * n)
	var c cuda.Commands
	c.Set(r.stream, p, 5, 2*n)
	c.Launch(r.stream, f, 4, 256, 0, addParams(p, n, 7))
	c.Launch(r.stream, f, 0, 256, 0, nil) // no blocks: nothing to do
	r.finish(&c)
	for i, v := range r.read(p, 2*n) {
		if want := byte(5 + 7*min(1, (2*n-1-i)/n)); v != want {
			t.Fatalf("byte %d is %d, want %d", i, v, want)
		}
	}
	r.quiet()
}

// The dynamic shared memory of a launch is 48 KiB unless more was allowed.
func TestAllowShared(t *testing.T) {
	r := open(t)
	f, p := r.add(), r.alloc(256)
	var c cuda.Commands
	shared := r.Info().SharedMemory
	c.Launch(r.stream, f, 1, 256, shared, addParams(p, 256, 1))
	oneLine(t, r.Run(&c), nd.ErrDevice, "CUDA_ERROR_INVALID_VALUE (1)", "command 0, a launch of hr_test_add on 1 blocks of 256 threads")
	ok(t, f.AllowShared(shared))
	ok(t, r.Run(&c))
	ok(t, r.stream.Drain())
}

// Images are tried in order; what this driver cannot use is passed over.
func TestLoadModuleFallsBack(t *testing.T) {
	r := open(t)
	tooNew := strings.Replace(testPTX, ".version 7.0", ".version 99.0", 1)
	images := [][]byte{[]byte("\x7fELF no cubin"), []byte(tooNew), []byte(testPTX)}
	module := must(r.LoadModule(images))(t)
	must(module.Function("hr_test_add"))(t)
	_, err := module.Function("hr_missing")
	oneLine(t, err, nd.ErrDevice, "kernel hr_missing", "CUDA_ERROR_NOT_FOUND (500)")
	_, err = r.LoadModule(images[:2])
	oneLine(t, err, nd.ErrDevice, "no kernel image fits", "image 1 of 2", "image 2 of 2")
	_, err = r.LoadModule(images[1:2])
	oneLine(t, err, nd.ErrDevice, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)")
	if !strings.Contains(strings.ToLower(err.Error()), "version") {
		t.Errorf("no word of the compiler in %q", err)
	}
	_, err = r.LoadModule(nil)
	oneLine(t, err, bug)
}

// Another failure than an unusable image ends the search.
func TestLoadModuleFails(t *testing.T) {
	r := open(t, needFake)
	r.fake.Fail("cuModuleLoadDataEx", 1, 2)
	_, err := r.LoadModule([][]byte{[]byte(testPTX), []byte(testPTX)})
	oneLine(t, err, nd.ErrBudget, "image 1 of 2")
}
