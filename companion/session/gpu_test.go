package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// onGPU is a session whose driver keeps the device's memory on the host.
func onGPU(t *testing.T) (*Session, *cudatest.Fake) {
	t.Helper()
	fake := cudatest.New(t)
	t.Cleanup(func() {
		if c := fake.Complaints(); len(c) > 0 {
			t.Errorf("the driver complains: %q", c)
		}
		if live := fake.Live(); live != (cudatest.Live{}) {
			t.Errorf("%+v is held", live)
		}
	})
	return New(Options{Driver: fake.Path}), fake
}

// gpuRequest is a pipeline of one slot over one array, as a client sends it, for a
// small device.
func gpuRequest(t *testing.T, more string) []byte {
	t.Helper()
	return fmt.Appendf(nil, `{"open": "pipeline", "fields": [{"name": "x", "shape": [2], "pad": "error", "pad_value": "0"}],
		"batch_size": 2, "on_error": "raise", "reuse": "window", "slots": 1, "verify": true,
		"device_bytes": 201326592, "host_bytes": 201326592, "workers": 1,
		"arrays": {"uris": [%q], "feeds": [[0]]}%s}`, writeArray(t, 100), more)
}

func openOnGPU(t *testing.T, s *Session, more string) (*served, placed) {
	t.Helper()
	handle, about, err := s.Open(t.Context(), gpuRequest(t, more))
	if err != nil {
		t.Fatal(err)
	}
	var where placed
	if err := json.Unmarshal(about, &where); err != nil {
		t.Fatal(err)
	}
	p, err := lookup[*pipelineObject](s, handle)
	if err != nil {
		t.Fatal(err)
	}
	return &served{s, handle, p}, where
}

// Where a client names no device it gets the GPU of its local rank; one GPU is that
// of whoever sees it; without a driver, or a GPU, the host, and the reason is told.
func TestDefaultDevice(t *testing.T) {
	env := func(local int) map[string]string {
		n := fmt.Sprint(local)
		return map[string]string{"RANK": n, "LOCAL_RANK": n, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
	}
	for _, c := range []struct {
		gpus int
		env  map[string]string
		want string
	}{{2, nil, "cuda:0"}, {4, env(1), "cuda:1"}, {4, env(3), "cuda:3"}, {1, env(3), "cuda:0"}, {4, map[string]string{"CUDA_VISIBLE_DEVICES": "-1"}, "cpu"}} {
		fake := cudatest.New(t)
		fake.Devices(c.gpus)
		if got, err := defaultDevice(fake.Path, &request{Env: c.env}); err != nil || got.Device != c.want {
			t.Errorf("%d GPUs, %v: %+v, %v", c.gpus, c.env, got, err)
		}
	}
	one := cudatest.New(t)
	one.Devices(1)
	r := request{Env: env(2), OnError: "raise", Reuse: "window"}
	if _, err := defaultDevice(one.Path, &r); err != nil || r.sharing != 4 {
		t.Errorf("four ranks, one GPU: shared by %d, %v", r.sharing, err)
	}
	if c, err := r.config(nil, nil); err != nil || c.Sharing != 4 {
		t.Errorf("the pipeline is told of %d, %v", c.Sharing, err)
	}
	few := cudatest.New(t)
	few.Devices(2)
	if got, err := defaultDevice(few.Path, &request{Env: env(1)}); !errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "LOCAL_WORLD_SIZE=4") {
		t.Errorf("four ranks, two GPUs: %+v, %v", got, err)
	}
	none := cudatest.New(t)
	none.Devices(0)
	for path, reason := range map[string]string{none.Path: "sees no GPU", filepath.Join(t.TempDir(), "libcuda.so.1"): "no NVIDIA driver"} {
		got, err := defaultDevice(path, &request{Env: env(1)})
		if err != nil || got.Device != "cpu" || !strings.Contains(got.Reason, reason) || strings.Contains(got.Reason, "\n") {
			t.Errorf("want the host since it %s: %+v", reason, got)
		}
	}
}

// A GPU that is asked for and not there is an error of one line.
func TestDeviceThatIsNotThere(t *testing.T) {
	s, _ := onGPU(t)
	missing := New(Options{Driver: filepath.Join(t.TempDir(), "libcuda.so.1")})
	for want, on := range map[string]*Session{"no GPU 7: the process may use 2": s, "no NVIDIA driver": missing} {
		_, _, err := on.Open(t.Context(), gpuRequest(t, `, "device": "cuda:7"`))
		if !errors.Is(err, nd.ErrDevice) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A GPU may be asked for by its UUID, of an engine of a device by any name of that
// one, and is known by its number from there on.
func TestDeviceByUUID(t *testing.T) {
	const second = "GPU-01010000-0000-0000-0000-000000000000" // of the fake driver
	fake := cudatest.New(t)
	for own, want := range map[string]string{"": "cuda:1", "cuda:1": "cuda:1", "cuda:0": "this engine's is \"cuda:0\"", "cpu": "this engine's is \"cpu\""} {
		r := request{Device: second}
		err := New(Options{Driver: fake.Path, Device: own}).place(&r)
		if err != nil && (!errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), want)) || err == nil && r.Device != want {
			t.Errorf("engine of %q: device %q, %v; want %s", own, r.Device, err, want)
		}
	}
}

// consumer is another user of the device, with a stream of its own.
type consumer struct {
	t      *testing.T
	gpu    *cuda.Device
	stream *cuda.Stream
	kept   cuda.Ptr
	bytes  int64
}

func newConsumer(t *testing.T, fake *cudatest.Fake) *consumer {
	t.Helper()
	driver, err := cuda.Load(fake.Path)
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{t: t, bytes: 4}
	if c.gpu, err = driver.Open(0); err != nil {
		t.Fatal(err)
	}
	if c.stream, err = c.gpu.NewStream(0); err != nil {
		t.Fatal(err)
	}
	if c.kept, err = c.gpu.Alloc(c.bytes); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.gpu.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// read queues the reading of a tensor on the consumer's stream.
func (c *consumer) read(from uint64) {
	c.t.Helper()
	var list cuda.Commands
	list.Copy(c.stream, c.kept, cuda.Ptr(from), c.bytes)
	if err := c.gpu.Run(&list); err != nil {
		c.t.Fatal(err)
	}
}

// got is what was read.
func (c *consumer) got() []byte {
	c.t.Helper()
	pinned, err := c.gpu.AllocHost(c.bytes)
	if err != nil {
		c.t.Fatal(err)
	}
	var list cuda.Commands
	list.Copy(c.stream, cuda.Address(pinned), c.kept, c.bytes)
	if err := errors.Join(c.gpu.Run(&list), c.stream.Drain()); err != nil {
		c.t.Fatal(err)
	}
	return bytes.Clone(pinned)
}

// A slot is not written before its consumers have read it: those whose streams are
// known, and those whose are not. The driver does nothing before somebody waits for
// it, so the consumer that nobody is told of reads the next batch: without that case
// the test would show nothing.
func TestSlotWaitsForItsConsumers(t *testing.T) {
	const invalidHandle = 400
	for name, c := range map[string]struct {
		use     func(s *Session, token uint64, stream int64) error
		changed bool
	}{
		"a stream":       {use: (*Session).Use},
		"at its release": {use: (*Session).After},
		"two streams": {use: func(s *Session, token uint64, stream int64) error {
			return errors.Join(s.Use(token, 1), s.Use(token, stream))
		}},
		"none known":       {use: func(s *Session, token uint64, _ int64) error { return s.Use(token, noStream) }},
		"another thread's": {use: func(s *Session, token uint64, _ int64) error { return s.Use(token, perThreadStream) }},
		"left out":         {use: func(*Session, uint64, int64) error { return nil }, changed: true},
		"gone":             {use: func(s *Session, token uint64, _ int64) error { return s.Use(token, 4711) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, fake := onGPU(t)
			fake.Lazy(true)
			reader := newConsumer(t, fake)
			o, _ := openOnGPU(t, s, "")
			push := func(i int) {
				if st, err := o.p.push(words(0, i), 2); st != Done || err != nil {
					t.Fatal(st, err)
				}
			}
			take := func() (token, address uint64) {
				st, err := s.Next(t.Context(), o.handle, patience, func(d Delivery, got uint64) error {
					token, address = got, d.Batch.TensorAt(0).Address
					return nil
				})
				if st != Done || err != nil {
					t.Fatalf("next: %v %v", st, err)
				}
				return token, address
			}
			push(1)
			token, address := take()
			want := make([]byte, reader.bytes)
			if err := s.Copy(token, 0, want); err != nil {
				t.Fatal(err)
			}
			reader.read(address)
			if err := c.use(s, token, int64(reader.stream.Handle())); err != nil {
				t.Fatal(err)
			}
			if name == "gone" { // a driver that notices
				fake.Fail("cuEventRecord", 1, invalidHandle)
			}
			s.GiveBack(token)
			push(5)
			second, _ := take()
			if same := bytes.Equal(reader.got(), want); same == c.changed {
				t.Errorf("the consumer reads %d, the batch was %d", reader.got(), want)
			}
			s.GiveBack(second)
			o.close(t)
			s.End()
		})
	}
}

// A batch can be copied, used and given back after its pipeline was closed, and the
// GPU is let go with it.
func TestBatchOutlivesItsPipeline(t *testing.T) {
	s, fake := onGPU(t)
	o, where := openOnGPU(t, s, "")
	if where.Device != "cuda:0" || !strings.Contains(where.Reason, "GPU 0 of 2") {
		t.Errorf("made on %+v", where)
	}
	if st, err := o.p.push(words(0, 3), 2); st != Done || err != nil {
		t.Fatal(st, err)
	}
	token := uint64(0)
	if st, err := s.Next(t.Context(), o.handle, patience, func(_ Delivery, got uint64) error {
		token = got
		return nil
	}); st != Done || err != nil {
		t.Fatal(st, err)
	}
	o.close(t)
	got := make([]byte, 4)
	if err := s.Copy(token, 0, got); err != nil || !bytes.Equal(got, []byte{103, 104, 104, 105}) {
		t.Errorf("%d, %v", got, err)
	}
	for _, err := range []error{s.Copy(token, 1, got), s.Copy(token, 0, got[1:])} {
		if !errors.Is(err, nd.ErrBug) {
			t.Errorf("got %v", err)
		}
	}
	if fake.Live().Device == 0 {
		t.Error("the memory of a batch that is held was freed")
	}
	if err := s.Use(token, 1); err != nil {
		t.Error(err)
	}
	s.GiveBack(token)
	if err := errors.Join(s.Use(token, 1), s.Copy(token, 0, got)); !errors.Is(err, nd.ErrClosed) {
		t.Errorf("after it was given back: %v", err)
	}
}

// The fields of the request that are a GPU's arrive at the pipeline.
func TestGPUFieldsPassThrough(t *testing.T) {
	var r request
	text := `{"open": "pipeline", "batch_size": 3, "on_error": "skip", "reuse": "cache", "verify": true, "reader": "mapped",
		"device_bytes": 1, "mapped_bytes": 2, "compressed_bytes": 3, "decoder": "x", "sms": 4, "fields": []}`
	if err := Parse([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	r.driver = "d"
	c, err := r.config(nil, nil)
	if err != nil || c.DeviceBytes != 1 || c.MappedBytes != 2 || c.CompressedBytes != 3 || c.Decoder != "x" || c.SMs != 4 || c.Reader != "mapped" || c.Driver != "d" {
		t.Errorf("%+v, %v", c, err)
	}
}
