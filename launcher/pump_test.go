package launcher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Several streams on one console, in pieces of any size, with lines longer than the
// buffer and without an end: each file is its stream byte for byte; on the console
// every line begins with a prefix, no two streams share one, and what a stream wrote
// is there in its order.
func TestPumps(t *testing.T) {
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 2))
		dir := t.TempDir()
		shared, err := create(filepath.Join(dir, "console"))
		if err != nil {
			t.Fatal(err)
		}
		console := &lines{file: shared}
		texts := make([][]byte, 1+dice.IntN(4))
		var running sync.WaitGroup
		for i := range texts {
			texts[i] = randomText(dice)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			file, err := create(filepath.Join(dir, fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			p := &pump{reader: r, file: file, console: console, prefix: fmt.Sprintf("[%d]:", i)}
			running.Go(p.run)
			running.Go(func() { writePieces(rand.New(rand.NewPCG(seed, uint64(i)+3)), w, texts[i]) })
		}
		running.Wait()
		if err := shared.Close(); err != nil {
			t.Fatal(err)
		}
		checkPumps(t, dir, texts)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomText has no brackets, so that prefixes can be told from it.
func randomText(dice *rand.Rand) []byte {
	var text []byte
	for range dice.IntN(200) {
		length := dice.IntN(100)
		if dice.IntN(40) == 0 {
			length = dice.IntN(4 * pumpBuffer)
		}
		for range length {
			text = append(text, byte('a'+dice.IntN(26)))
		}
		text = append(text, '\n')
	}
	if len(text) > 0 && dice.IntN(2) == 0 {
		text = text[:len(text)-1]
	}
	return text
}

func writePieces(dice *rand.Rand, w *os.File, text []byte) {
	for len(text) > 0 {
		n := min(len(text), 1+dice.IntN(5000))
		_, _ = w.Write(text[:n])
		text = text[n:]
	}
	_ = w.Close()
}

func checkPumps(t *testing.T, dir string, texts [][]byte) {
	t.Helper()
	console, err := os.ReadFile(filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	shown := make([]strings.Builder, len(texts))
	for line := range strings.Lines(string(console)) {
		var i int
		if n, _ := fmt.Sscanf(line, "[%d]:", &i); n != 1 || i >= len(texts) || strings.Count(line, "[") != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("the console has the line %.60q", line)
		}
		shown[i].WriteString(strings.TrimSuffix(line[len("[0]:"):], "\n"))
	}
	for i, text := range texts {
		if kept, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); err != nil || !bytes.Equal(kept, text) {
			t.Errorf("file %d has %d bytes of %d (%v)", i, len(kept), len(text), err)
		}
		// Lines that were shown in parts have more ends than they were written with.
		if want := strings.ReplaceAll(string(text), "\n", ""); shown[i].String() != want {
			t.Errorf("stream %d: %d bytes shown of %d", i, shown[i].Len(), len(want))
		}
		short := true
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			short = short && len(line) < pumpBuffer
		}
		if ends := strings.Count(string(console), fmt.Sprintf("[%d]:", i)); short && ends != len(bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))) && len(text) > 0 {
			t.Errorf("stream %d: %d lines shown", i, ends)
		}
	}
}

// A process out of reach that has the pipe and writes without end does not keep the
// launcher: what the dead left is read, and no more than a pipe holds.
func TestEndlessWriter(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	file, err := create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	p := &pump{reader: r, file: file}
	ended := make(chan struct{})
	go func() { p.run(); close(ended) }()
	wrote := make(chan struct{})
	go func() {
		for { // until nobody reads
			if _, err := w.Write([]byte("spam\n")); err != nil {
				close(wrote)
				return
			}
		}
	}()
	p.last(quiet)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the pump still reads")
		_ = r.Close()
	}
	<-wrote
	if p.err != nil || w.Close() != nil {
		t.Error(p.err)
	}
}
