package companion

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/headrace/headrace/nd"
)

// Any frame comes back as it was sent.
func TestFramesComeBack(t *testing.T) {
	for _, n := range []int{0, 1, smallPayload, smallPayload + 1, 1 << 20} {
		sent := frame{kind: kindOpen, fds: 3, id: 1<<63 + 5, payload: bytes.Repeat([]byte{7}, n)}
		got, err := readFrame(bytes.NewReader(sent.bytes()))
		if err != nil || got.kind != sent.kind || got.fds != sent.fds || got.id != sent.id || !bytes.Equal(got.payload, sent.payload) {
			t.Errorf("%d bytes: %v, %v", n, got.kind, err)
		}
	}
}

// A stream that ends within a frame is told from one that ends between two.
func TestCutFrames(t *testing.T) {
	text := (&frame{kind: kindClose, id: 1, payload: make([]byte, 8)}).bytes()
	for n := range text {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := readFrame(bytes.NewReader(text[:n])); !errors.Is(err, want) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

// endless is a stream of zeros.
type endless struct{ given int }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.given += len(p)
	return len(p), nil
}

// A length that promises more than is sent takes no memory for it.
func TestLyingLengthCostsNothing(t *testing.T) {
	head := (&frame{kind: kindOpen, id: 1}).bytes()
	copy(head, numbers(uint32(MaxFrame)))
	cost := testing.AllocsPerRun(10, func() {
		if _, err := readFrame(bytes.NewReader(head)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
	if cost > 8 {
		t.Errorf("%v allocations", cost)
	}
	copy(head, numbers(uint32(MaxFrame+1)))
	rest := &endless{}
	if _, err := readFrame(io.MultiReader(bytes.NewReader(head), rest)); !errors.Is(err, nd.ErrBudget) || rest.given > 0 {
		t.Errorf("got %v after %d bytes", err, rest.given)
	}
}

// FuzzRequest: whatever comes is refused with a kind of error or understood, and what
// was understood of binary requests is all that was said.
func FuzzRequest(f *testing.F) {
	for _, seed := range []frame{
		{kind: kindOpen, id: 1, payload: []byte(`{"open": "array"}`)},
		{kind: kindAsk, id: 2, payload: []byte(`{"handle": 1, "method": "stats", "argument": null}`)},
		{kind: kindClose, id: 3, payload: numbers(uint64(9))},
		{kind: kindPush, id: 4, payload: numbers(uint64(9), uint32(1), uint32(0), []int64{1, 2, -3})},
		{kind: kindNext, id: 5, payload: numbers(uint64(9), uint32(100), uint32(0))},
		{kind: kindCancel, id: 6},
		{kind: kindBatch, fds: 1},
	} {
		f.Add(seed.bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			got, err := readFrame(in)
			if err != nil {
				return
			}
			r, err := parseRequest(got)
			if err != nil {
				if e, ok := errors.AsType[*nd.Error](err); !ok || e.Kind == nil {
					t.Fatalf("an error without a kind: %v", err)
				}
				continue
			}
			if back := rewrite(r); back != nil && !bytes.Equal(back, got.payload) {
				t.Fatalf("%x was read as %x", got.payload, back)
			}
		}
	})
}

// rewrite is the payload of a binary request, nil for JSON.
func rewrite(r request) []byte {
	switch r.kind {
	case kindClose:
		return numbers(r.handle)
	case kindPush:
		return slices.Concat(numbers(r.handle, uint32(r.samples), uint32(0)), numbers(r.words))
	case kindNext:
		return numbers(r.handle, r.waitInMS, uint32(0))
	case kindCancel:
		return []byte{}
	}
	return nil
}

// FuzzGreeting: a greeting is understood or refused in one line.
func FuzzGreeting(f *testing.F) {
	good, err := appendGreeting(nil, Version, Hello{Release: "1", PID: 2, Env: map[string]string{"RANK": "0"}, Memory: []string{memfd}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h Hello
		err := readGreeting(bytes.NewReader(data), &h)
		if err == nil {
			err = h.check(1, []string{memfd, cudaIPC})
		}
		if e, ok := errors.AsType[*nd.Error](err); err != nil && (!ok || e.Kind == nil) {
			t.Fatalf("an error without a kind: %v", err)
		}
	})
}
