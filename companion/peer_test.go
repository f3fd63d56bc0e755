package companion

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// serve starts an engine that ends with the test.
func serve(t *testing.T, cfg Config) (e *Engine, stop func()) {
	t.Helper()
	cfg.Socket = filepath.Join(t.TempDir(), "s")
	e, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	var stopped bool
	stop = func() {
		t.Helper()
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the engine does not end")
		}
	}
	t.Cleanup(stop)
	return e, stop
}

// peer is a client as the protocol describes it, written apart from the engine's
// own code.
type peer struct {
	t      *testing.T
	conn   *net.UnixConn
	pipe   int // write end of the release pipe
	last   uint64
	memory map[uint64][]byte
	gone   []uint64
	closes bool // it closes memory on a GPU as soon as it may forget it
}

// connect dials and sends a greeting of a version; the welcome is read.
func connect(t *testing.T, e *Engine, version uint32, hello string) (*peer, Welcome) {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: e.cfg.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: conn, pipe: pipe[1], memory: map[uint64][]byte{}}
	t.Cleanup(p.close)
	if _, _, err := conn.WriteMsgUnix(greeting(version, hello), unix.UnixRights(pipe[0]), nil); err != nil {
		t.Log(err) // it may refuse before it reads
	}
	if err := unix.Close(pipe[0]); err != nil {
		t.Error(err)
	}
	return p, p.welcome()
}

// greeting is a greeting as it is sent.
func greeting(version uint32, hello string) []byte {
	text := append([]byte("headrace"), make([]byte, 8)...)
	binary.LittleEndian.PutUint32(text[8:], version)
	binary.LittleEndian.PutUint32(text[12:], uint32(len(hello)))
	return append(text, hello...)
}

const hello = `{"release": "test", "pid": 1, "env": {}, "memory": ["memfd"]}`

func join(t *testing.T, e *Engine) *peer {
	t.Helper()
	p, w := connect(t, e, Version, hello)
	if w.Error != nil {
		t.Fatal(w.Error.Message)
	}
	return p
}

func (p *peer) welcome() (w Welcome) {
	p.t.Helper()
	head := p.read(16)
	if string(head[:8]) != "headrace" || binary.LittleEndian.Uint32(head[8:]) != Version {
		p.t.Fatalf("greeting %q", head)
	}
	if err := json.Unmarshal(p.read(int(binary.LittleEndian.Uint32(head[12:]))), &w); err != nil {
		p.t.Fatal(err)
	}
	return w
}

// read reads exactly n bytes without looking for descriptors.
func (p *peer) read(n int) []byte {
	p.t.Helper()
	data, fds := p.readFDs(n)
	if len(fds) > 0 {
		p.t.Fatalf("%d descriptors where none belong", len(fds))
	}
	return data
}

func (p *peer) readFDs(n int) (data []byte, fds []int) {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	data, oob := make([]byte, n), make([]byte, 64)
	for at := 0; at < n; {
		k, oobn, flags, _, err := p.conn.ReadMsgUnix(data[at:], oob)
		if err != nil || k == 0 {
			p.t.Fatalf("read %d of %d bytes: %v", at, n, err)
		}
		got, err := descriptors(oob[:oobn], flags)
		if err != nil {
			p.t.Fatal(err)
		}
		fds, at = append(fds, got...), at+k
	}
	return data, fds
}

// ended reports whether the engine closes the connection; replies to requests under
// way may come before that.
func (p *peer) ended() bool {
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, p.conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func (p *peer) close() {
	_ = p.conn.Close()
	if p.pipe >= 0 {
		_ = unix.Close(p.pipe)
		p.pipe = -1
	}
	for id, mem := range p.memory {
		_ = unix.Munmap(mem)
		delete(p.memory, id)
	}
}

// send sends a request and gives its id.
func (p *peer) send(k kind, payload []byte) uint64 {
	p.t.Helper()
	p.last++
	p.sendAs(p.last, k, payload)
	return p.last
}

func (p *peer) sendAs(id uint64, k kind, payload []byte) {
	p.t.Helper()
	f := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	f = append(f, byte(k), 0, 0, 0)
	f = binary.LittleEndian.AppendUint64(f, id)
	if _, err := p.conn.Write(append(f, payload...)); err != nil {
		p.t.Fatal(err)
	}
}

// reply reads frames up to one that says more than what may be forgotten.
func (p *peer) reply() (k kind, id uint64, payload []byte, fds []int) {
	p.t.Helper()
	for k = kindForget; k == kindForget; {
		k, id, payload, fds = p.frame()
	}
	return k, id, payload, fds
}

// frame reads a frame, and notes what may be forgotten.
func (p *peer) frame() (k kind, id uint64, payload []byte, fds []int) {
	p.t.Helper()
	head, fds := p.readFDs(16)
	payload = p.read(int(binary.LittleEndian.Uint32(head)))
	if len(fds) != int(head[5]) {
		p.t.Fatalf("%d descriptors, the frame tells of %d", len(fds), head[5])
	}
	k, id = kind(head[4]), binary.LittleEndian.Uint64(head[8:])
	if k != kindForget {
		return k, id, payload, fds
	}
	for ; len(payload) > 0; payload = payload[8:] {
		memory := binary.LittleEndian.Uint64(payload)
		p.gone = append(p.gone, memory)
		if p.closes {
			p.closed(memory)
		}
	}
	return k, id, payload, fds
}

// closed tells the engine that memory on a GPU was closed.
func (p *peer) closed(memory uint64) {
	p.t.Helper()
	p.give(1<<63 | memory)
}

// call sends a request and reads the reply to it, which must be of a kind.
func (p *peer) call(k kind, payload []byte, want kind) []byte {
	p.t.Helper()
	id := p.send(k, payload)
	return p.expect(id, want)
}

func (p *peer) expect(id uint64, want kind) []byte {
	p.t.Helper()
	k, got, payload, _ := p.reply()
	if k != want || got != id {
		p.t.Fatalf("reply %d to request %d, want %d to %d: %s", k, got, want, id, payload)
	}
	return payload
}

// open opens what a request says and gives its handle.
func (p *peer) open(what string) uint64 {
	p.t.Helper()
	var r struct{ Handle uint64 }
	if err := json.Unmarshal(p.call(kindOpen, []byte(what), kindResult), &r); err != nil {
		p.t.Fatal(err)
	}
	return r.Handle
}

func numbers(parts ...any) []byte {
	var b []byte
	for _, part := range parts {
		b, _ = binary.Append(b, binary.LittleEndian, part)
	}
	return b
}

// push pushes a batch of two samples, elements i and i+1, i+1 and i+2.
func (p *peer) push(handle uint64, i int64) {
	p.t.Helper()
	words := []int64{2 * i, 0, 0, 1, i, i + 2, 0, 0, 1, i, i + 2, 2*i + 1, 0, 0, 1, i + 1, i + 3, 0, 0, 1, i + 1, i + 3}
	p.call(kindPush, numbers(handle, uint32(2), uint32(0), words), kindResult)
}

func (p *peer) next(handle uint64) uint64 {
	p.t.Helper()
	return p.send(kindNext, numbers(handle, uint32(10_000), uint32(0)))
}

// batch reads a batch and maps what is new.
func (p *peer) batch(id uint64) (b Batch) {
	p.t.Helper()
	k, got, payload, fds := p.reply()
	if k != kindBatch || got != id {
		p.t.Fatalf("reply %d to request %d: %s", k, got, payload)
	}
	if err := json.Unmarshal(payload, &b); err != nil {
		p.t.Fatal(err)
	}
	if len(fds) != len(b.New) {
		p.t.Fatalf("%d descriptors for %v", len(fds), b.New)
	}
	for i, fd := range fds {
		p.mapSlot(fd, b.New[i])
	}
	return b
}

func (p *peer) mapSlot(fd int, m Memory) {
	p.t.Helper()
	if err := unix.Ftruncate(fd, 0); err == nil {
		p.t.Error("the file of a slot can be cut: a mapping of it would fault")
	}
	if err := unix.Ftruncate(fd, m.Bytes+1<<20); err == nil {
		p.t.Error("the file of a slot can grow")
	}
	mem, err := unix.Mmap(fd, 0, int(m.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := unix.Close(fd); err != nil {
		p.t.Error(err)
	}
	p.memory[m.ID] = mem
}

// give sends a number down the release pipe.
func (p *peer) give(number uint64) {
	p.t.Helper()
	if _, err := unix.Write(p.pipe, binary.NativeEndian.AppendUint64(nil, number)); err != nil {
		p.t.Fatal(err)
	}
}

// pair is a pipeline of two fields over one array, x as stored and y as floats.
func pair(t *testing.T, slots int) string {
	t.Helper()
	return fmt.Sprintf(`{"open": "pipeline", "batch_size": 2, "slots": %d, "on_error": "raise", "reuse": "window", "decoded_bytes": 1048576,
		"arrays": {"uris": [%q], "feeds": [[0], [0]]}, "fields": [
		{"name": "x", "shape": [2], "pad": "error", "pad_value": "0"},
		{"name": "y", "shape": [2], "dtype": "f32", "pad": "error", "pad_value": "0"}]}`, slots, writeArray(t))
}

// writeArray writes a zarr v3 array of 16 bytes, 100, 101, … and gives its path.
func writeArray(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const doc = `{"zarr_format": 3, "node_type": "array", "shape": [16], "data_type": "uint8",
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16]}},
		"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
		"codecs": [{"name": "bytes"}], "fill_value": 0}`
	data := make([]byte, 16)
	for i := range data {
		data[i] = 100 + byte(i)
	}
	for name, content := range map[string][]byte{"zarr.json": []byte(doc), "c.0": data} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
