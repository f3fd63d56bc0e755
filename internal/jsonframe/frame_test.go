package jsonframe_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/jsonframe"
	"github.com/headrace/headrace/nd"
)

// What is written is read, message by message, up to the limit and not beyond; a
// stream ends between two of them or not at all.
func TestFrames(t *testing.T) {
	var stream []byte
	want := []string{`"a"`, `{"b":1}`, `null`}
	for _, text := range []any{"a", map[string]int{"b": 1}, nil} {
		f, err := jsonframe.Encode(text, 7)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(stream, f...)
	}
	r := bytes.NewReader(stream)
	for _, text := range want {
		if got, err := jsonframe.Read(r, 7); err != nil || string(got) != text {
			t.Fatalf("got %q, %v, want %q", got, err, text)
		}
	}
	if _, err := jsonframe.Read(r, 7); err != io.EOF { //nolint:errorlint // as it is
		t.Errorf("between two messages: %v", err)
	}
	for cut := 1; cut < 7; cut++ {
		if _, err := jsonframe.Read(bytes.NewReader(stream[:cut]), 7); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

func TestLimits(t *testing.T) {
	if _, err := jsonframe.Encode("four", 5); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("a message that is too long: %v", err)
	}
	if _, err := jsonframe.Encode(math.NaN(), 100); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("NaN: %v", err)
	}
	if _, err := jsonframe.Read(strings.NewReader("GET / HTTP/1.1\r\n"), 1<<20); !errors.Is(err, nd.ErrBudget) {
		t.Errorf("what is no message: %v", err)
	}
}

// A length that promises much costs what is sent.
func TestPromisesCostNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := jsonframe.Read(strings.NewReader("\x40\x00\x00\x00{}"), 1<<30); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes for a message of 2", n)
	}
}
