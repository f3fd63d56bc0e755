package companion

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/testwait"
)

// A batch is where its description says, in memory that is handed over once for
// each slot; tokens bring slots back; what is asked for ends as it does in a
// process.
func TestBatchesOverTheSocket(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	handle := p.open(pair(t, 2))
	seen := map[uint64]bool{}
	for i := range int64(6) {
		p.push(handle, i)
		b := p.batch(p.next(handle))
		if fresh := !seen[b.Memory]; fresh != (len(b.New) == 1) {
			t.Errorf("batch %d lies in memory %d, and %v comes with it", i, b.Memory, b.New)
		}
		seen[b.Memory] = true
		at := byte(100 + i)
		x := p.memory[b.Memory][b.Fields[0].Offset:][:4]
		y := p.memory[b.Memory][b.Fields[1].Offset:][:16]
		if !bytes.Equal(x, []byte{at, at + 1, at + 1, at + 2}) || !bytes.Equal(y[:8], numbers(float32(at), float32(at+1))) {
			t.Errorf("batch %d holds %v and %v", i, x, y)
		}
		if b.IDs[0] != 2*i || b.Step != i || b.Weight != 1 || b.Fields[1].Shape[0] != 2 {
			t.Errorf("batch %d is %+v", i, b)
		}
		p.give(b.Token)
	}
	if len(seen) > 2 {
		t.Errorf("%d slots of 2", len(seen))
	}
	p.call(kindAsk, []byte(`{"handle": 1, "method": "finish", "argument": null}`), kindResult)
	p.expect(p.next(handle), kindEnded)
	if payload := p.call(kindNext, numbers(handle, uint32(1), uint32(0)), kindAgain); len(payload) != 0 {
		t.Errorf("again says %s", payload)
	}
	p.call(kindClose, numbers(handle), kindResult)
	if len(p.gone) != len(seen) {
		t.Errorf("%v of %v may be forgotten", p.gone, seen)
	}
	if text := p.call(kindClose, numbers(handle), kindError); !strings.Contains(string(text), `"closed"`) {
		t.Errorf("closed twice: %s", text)
	}
}

// Requests under way do not wait for each other, and a cancelled one is answered at
// once: nothing is lost with it.
func TestCancelWakes(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	handle := p.open(pair(t, 2))
	waiting := p.next(handle)
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindResult)
	p.sendAs(waiting, kindCancel, nil)
	p.sendAs(1<<40, kindCancel, nil) // of no request: ignored
	if text := p.expect(waiting, kindError); !strings.Contains(string(text), `"cancelled"`) {
		t.Errorf("got %s", text)
	}
	p.push(handle, 0)
	if b := p.batch(p.next(handle)); b.Step != 0 {
		t.Errorf("step %d", b.Step)
	}
}

// A client that has gone leaves no pipeline, no slot and no place taken, whatever it
// held.
func TestAGoneClientLeavesNothing(t *testing.T) {
	e, _ := serve(t, Config{Clients: 1, Pipelines: 2})
	for range 3 {
		p := join(t, e)
		handle := p.open(pair(t, 2))
		p.push(handle, 0)
		p.push(handle, 1)
		p.batch(p.next(handle))
		p.open(pair(t, 3))
		p.next(handle) // under way
		p.close()
		testwait.Until(t, "the client's pipelines are open", func() bool { return e.pipelines.Used() == 0 })
		testwait.Until(t, "the client's place is taken", func() bool { return len(e.slots) == 0 })
	}
}

// What is out of a request that nobody waits for goes back by its number.
func TestHandlesGoBackByThePipe(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	p.give(p.open(pair(t, 2)))
	testwait.Until(t, "the pipeline is open", func() bool { return e.pipelines.Used() == 0 })
}

func TestBounds(t *testing.T) {
	e, _ := serve(t, Config{Clients: 2, Pipelines: 1})
	p, other := join(t, e), join(t, e)
	refused, w := connect(t, e, Version, hello)
	if w.Error == nil || w.Error.Kind != "budget" || !strings.Contains(w.Error.Message, "2 clients") || !refused.ended() {
		t.Errorf("a third client: %+v", w)
	}
	p.open(pair(t, 2))
	if text := other.call(kindOpen, []byte(pair(t, 2)), kindError); !strings.Contains(string(text), "1 pipelines") {
		t.Errorf("a second pipeline: %s", text)
	}
}

// Too many requests of one client end its connection; they cost no goroutines
// beyond the bound.
func TestRequestsAreBounded(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	handle := p.open(`{"open": "pipeline", "on_error": "raise", "reuse": "window"}`)
	for range maxRequests + 1 {
		p.next(handle)
	}
	for {
		k, id, payload, _ := p.reply()
		if id == 0 {
			if k != kindError || !strings.Contains(string(payload), "1024 requests") {
				t.Errorf("got %d %s", k, payload)
			}
			return
		}
	}
}

func TestGreetingsThatAreRefused(t *testing.T) {
	e, _ := serve(t, Config{})
	for _, bad := range []struct {
		version     uint32
		hello, want string
	}{
		{Version + 1, `{"anything": 1}`, "version 1 of the protocol, the client 2"},
		{Version, `{"release": "9", "pid": 1, "env": {}, "memory": ["cuda_ipc"]}`, `headrace 9) takes ["cuda_ipc"]`},
		{Version, `{"novel": 1}`, "novel"},
		{Version, `{} {}`, "more than one value"},
	} {
		p, w := connect(t, e, bad.version, bad.hello)
		if w.Error == nil || !strings.Contains(w.Error.Message, bad.want) || strings.Contains(w.Error.Message, "\n") {
			t.Errorf("%d %s: %+v", bad.version, bad.hello, w.Error)
		}
		if !p.ended() {
			t.Errorf("%s: the connection is open", bad.hello)
		}
	}
	stranger, err := net.Dial("unix", e.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close() //nolint:errcheck // only read from
	if _, err := stranger.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: stranger.(*net.UnixConn)}
	if w := p.welcome(); w.Error == nil || w.Error.Kind != "unsupported" {
		t.Errorf("got %+v", w.Error)
	}
}

// A greeting comes with the read end of a pipe: what never ends, or keeps a reader that
// nothing wakes, is refused.
func TestGreetingsWithoutAPipe(t *testing.T) {
	e, _ := serve(t, Config{Clients: 1})
	file := func(path string) int {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	zeros := file("/dev/zero")
	for want, fds := range map[string][]int{
		"not with a release pipe": nil,
		"is no pipe":              {zeros},
		"2 descriptors":           {zeros, zeros},
	} {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: e.cfg.Socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		p := &peer{t: t, conn: conn}
		if _, _, err := conn.WriteMsgUnix(greeting(Version, hello), unix.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		if w := p.welcome(); w.Error == nil || !strings.Contains(w.Error.Message, want) {
			t.Errorf("%s: got %+v", want, w.Error)
		}
		if !p.ended() {
			t.Errorf("%s: the connection is open", want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		testwait.Until(t, "the place is not free", func() bool { return len(e.slots) == 0 })
	}
}

// An engine that can open no more files serves those it has, and the next client when it
// can.
func TestNoMoreFiles(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	p.open(`{"open": "pipeline", "on_error": "raise", "reuse": "window"}`)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	taken := takeFiles()
	defer func() {
		giveFiles(taken)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	giveFiles(taken[:1])
	taken = taken[1:]
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: e.cfg.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only asked for its welcome
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindResult)
	giveFiles(taken)
	taken = nil
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if w := (&peer{t: t, conn: conn}).welcome(); w.Error == nil || w.Error.Kind != "unsupported" {
		t.Errorf("got %+v", w)
	}
}

// takeFiles opens files until there can be no more.
func takeFiles() (taken []int) {
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			return taken
		}
		taken = append(taken, fd)
	}
}

func giveFiles(taken []int) {
	for _, fd := range taken {
		_ = unix.Close(fd)
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	e, _ := serve(t, Config{})
	p := join(t, e)
	if _, err := checkPeer(p.conn, os.Geteuid()); err != nil {
		t.Error(err)
	}
	if _, err := checkPeer(p.conn, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), "must be the same") {
		t.Errorf("got %v", err)
	}
}

// A message that breaks the protocol ends the connection with its reason, and
// concerns nobody else.
func TestBrokenFramesEndTheConnection(t *testing.T) {
	e, _ := serve(t, Config{})
	other := join(t, e)
	for name, break_ := range map[string]func(p *peer){
		"of kind 99":         func(p *peer) { p.send(99, nil) },
		"id 0":               func(p *peer) { p.sendAs(0, kindClose, numbers(uint64(1))) },
		"268435456":          func(p *peer) { write(p, numbers(uint32(MaxFrame+1), uint32(kindOpen), uint64(1))) },
		"in zeros":           func(p *peer) { write(p, numbers(uint32(0), uint32(1<<16), uint64(1))) },
		"has 3 bytes":        func(p *peer) { p.send(kindClose, []byte("abc")) },
		"a push of 12 bytes": func(p *peer) { p.send(kindPush, make([]byte, 12)) },
		"5 samples in 1":     func(p *peer) { p.send(kindPush, numbers(uint64(1), uint32(5), uint32(0), int64(1))) },
		"must be zero":       func(p *peer) { p.send(kindNext, numbers(uint64(1), uint32(5), uint32(1))) },
		"unknown field":      func(p *peer) { p.send(kindAsk, []byte(`{"novel": 1}`)) },
		"is under way": func(p *peer) {
			p.sendAs(p.next(p.open(`{"open": "pipeline", "on_error": "raise", "reuse": "window"}`)), kindClose, numbers(uint64(1)))
		},
		"with 1 descriptors": func(p *peer) {
			write(p, append(numbers(uint32(0)), append([]byte{byte(kindOpen), 1, 0, 0}, numbers(uint64(1))...)...))
		},
	} {
		p := join(t, e)
		break_(p)
		k, id, payload, _ := p.reply()
		if k != kindError || id != 0 || !strings.Contains(string(payload), name) {
			t.Errorf("%s: reply %d to %d: %s", name, k, id, payload)
		}
		if !p.ended() {
			t.Errorf("%s: the connection goes on", name)
		}
	}
	// What is wrong with a request alone is its own error.
	for _, bad := range []string{"", "{", `{"novel": 1}`, `{"open": "novel"}`} {
		if text := other.call(kindOpen, []byte(bad), kindError); !strings.Contains(string(text), `"bug"`) {
			t.Errorf("%q: %s", bad, text)
		}
	}
}

func write(p *peer, data []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(data); err != nil {
		p.t.Fatal(err)
	}
}

// An engine that is asked to stop answers what is under way, and only then closes;
// the socket goes.
func TestDrain(t *testing.T) {
	e, stop := serve(t, Config{})
	p := join(t, e)
	handle := p.open(pair(t, 2))
	waiting := p.send(kindNext, numbers(handle, uint32(300), uint32(0)))
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindResult) // so that next is under way
	began := time.Now()
	stop()
	p.expect(waiting, kindAgain)
	if !p.ended() {
		t.Error("the connection is open")
	}
	if took := time.Since(began); took >= e.cfg.Grace {
		t.Errorf("took %v", took)
	}
	if _, err := os.Lstat(e.cfg.Socket); !os.IsNotExist(err) {
		t.Errorf("the socket: %v", err)
	}
}

// The socket is gone when Serve returns, also when a client comes at the last moment.
func TestDrainAsAClientComes(t *testing.T) {
	for range 300 {
		e, stop := serve(t, Config{})
		conn, err := net.Dial("unix", e.cfg.Socket)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		_ = conn.Close()
		if _, err := os.Lstat(e.cfg.Socket); !os.IsNotExist(err) {
			t.Fatalf("the socket: %v", err)
		}
	}
}

// A request that does not end in time is cancelled.
func TestDrainCancelsWhatIsLate(t *testing.T) {
	e, stop := serve(t, Config{Grace: 100 * time.Millisecond})
	p := join(t, e)
	handle := p.open(pair(t, 2))
	waiting := p.send(kindNext, numbers(handle, uint32(3_600_000), uint32(0)))
	p.call(kindAsk, []byte(`{"handle": 1, "method": "stats", "argument": null}`), kindResult)
	stop()
	if text := p.expect(waiting, kindError); !strings.Contains(string(text), `"cancelled"`) {
		t.Errorf("got %s", text)
	}
}

// A client that does not read its replies is given no more goroutines than the
// bound, and does not keep the engine from ending.
func TestAClientThatDoesNotRead(t *testing.T) {
	e, stop := serve(t, Config{Grace: 500 * time.Millisecond})
	p := join(t, e)
	p.open(pair(t, 2))
	before := runtime.NumGoroutine()
	for range 4 * maxRequests { // more replies than a socket holds
		f := frame{kind: kindAsk, id: p.last + 1, payload: []byte(`{"handle": 1, "method": "stats", "argument": null}`)}
		_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := p.conn.Write(f.bytes()); err != nil {
			break // the engine has ended the connection
		}
		p.last++
	}
	if n := runtime.NumGoroutine() - before; n > maxRequests+8 {
		t.Errorf("%d goroutines", n)
	}
	stop()
}

// What is too much at a time is answered as all else is: whoever reads the requests waits
// for no client that does not read its replies.
func TestTooMuchAtATime(t *testing.T) {
	e, _ := serve(t, Config{})
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*net.UnixConn, 2)
	for i, fd := range ends {
		file := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(file)
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // a test's
		conns[i] = conn.(*net.UnixConn)
	}
	c := e.newClient(conns[0], 0, &Hello{}, nil)
	c.mu.bytes = MaxFrame
	c.sending.Lock() // as another reply does that finds no reader
	if err := c.begin(t.Context(), request{kind: kindAsk, id: 7, size: 1}); err != nil {
		t.Fatal(err)
	}
	c.sending.Unlock()
	f, err := readFrame(conns[1])
	if err != nil || f.kind != kindError || f.id != 7 || !strings.Contains(string(f.payload), "ask again later") {
		t.Errorf("%+v, %v", f, err)
	}
	c.working.Wait()
	if c.mu.running != 0 || c.mu.bytes != MaxFrame {
		t.Errorf("%d requests of %d bytes are left", c.mu.running, c.mu.bytes)
	}
	c.session.End()
}

// The reply's numbers are those of the documentation: another client is written by
// them, in another language.
func TestWelcomeTells(t *testing.T) {
	e, _ := serve(t, Config{Release: "7.8.9"})
	_, w := connect(t, e, 1, hello)
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"release":"7.8.9"`, `"device":"cpu"`, `"pid":`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}
