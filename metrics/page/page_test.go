package page

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/metrics"
)

var _ Server = (*metrics.Server)(nil)

// plain is a Server without a key.
type plain struct{ *http.ServeMux }

func (p plain) HandleOpen(pattern string, h http.Handler) { p.Handle(pattern, h) }

// ask gives the answer to a GET, unpacked, and how many bytes came.
func ask(t *testing.T, h http.Handler, url string, packed bool) (body []byte, sent int, header http.Header) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, url, nil)
	if packed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, w.Code, w.Body)
	}
	sent = w.Body.Len()
	var from io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	body, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return body, sent, w.Header()
}

func mounted(f func() Snapshot) http.Handler {
	p := plain{http.NewServeMux()}
	Mount(p, f)
	return p
}

// The page's files hold nothing of the job, ask nobody else, and may run nothing else.
func TestFiles(t *testing.T) {
	h := mounted(func() Snapshot { t.Error("a file asks for the job"); return Snapshot{} })
	for _, url := range []string{"/", "/page.css", "/page.js"} {
		body, _, header := ask(t, h, url, true)
		policy := header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q", url, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", url, header)
		}
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http://", "https://", "//cdn", "innerHTML", "insertAdjacentHTML", "document.write", " style=", " onclick="} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", url, bad)
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/other", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("another file: %d", w.Code)
	}
}

// /debug/view has all that the Snapshot has.
func TestWhole(t *testing.T) {
	want := Sample("async", 4, 2)
	body, _, _ := ask(t, mounted(func() Snapshot { return want }), "/debug/view", false)
	var got Snapshot
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if a, b := string(encode(got)), string(encode(want)); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

// The part that changes seldom comes once, and again when it is another.
func TestLiveSendsWhoIsThereOnce(t *testing.T) {
	s := Sample("async", 4, 2)
	l := &live{snapshot: func() Snapshot { return s }, now: time.Now}
	clock := time.Now()
	l.now = func() time.Time { return clock }
	f := func(query string) (doc answerDoc) {
		t.Helper()
		body, _, _ := ask(t, http.HandlerFunc(l.serve), "/live"+query, true)
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	first := f("")
	if first.Slow == nil || first.Tag == "" || first.Rank != nil {
		t.Fatalf("got %+v", first)
	}
	if again := f("?have=" + first.Tag + "&rank=5"); again.Slow != nil || again.Tag != first.Tag || again.Rank == nil || again.Rank.Rank != 5 {
		t.Errorf("got %+v", again)
	}
	for _, query := range []string{"?rank=8", "?rank=-1", "?rank=x", "?rank=99999999999999999999"} {
		if doc := f(query); doc.Rank != nil {
			t.Errorf("%s: %+v", query, doc.Rank)
		}
	}
	s.Nodes[1].Lost = true
	if doc := f("?have=" + first.Tag); doc.Slow != nil {
		t.Error("a Snapshot is taken anew before it is old")
	}
	clock = clock.Add(fresh)
	if doc := f("?have=" + first.Tag); doc.Slow == nil || doc.Tag == first.Tag {
		t.Error("a node that is lost is not told")
	}
}

// An update of a job of 4,000 ranks is small: the page asks for one every two seconds.
func TestSizeOfAnUpdate(t *testing.T) {
	s := Sample("async", 500, 8)
	h := mounted(func() Snapshot { return s })
	body, first, _ := ask(t, h, "/live", true)
	var doc answerDoc
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	body, again, _ := ask(t, h, "/live?have="+doc.Tag, true)
	t.Logf("4,000 ranks: %d bytes at first, %d an update, %d unpacked", first, again, len(body))
	if first > 40<<10 || again > 20<<10 {
		t.Errorf("%d and %d bytes", first, again)
	}
}

// BenchmarkUpdate is what one update costs the agent at 4,000 ranks, beside the Snapshot.
func BenchmarkUpdate(b *testing.B) {
	s := Sample("async", 500, 8)
	for b.Loop() {
		u := newUpdate(&s)
		pack(encode(answerDoc{Tag: u.tag, Fast: u.fast}))
	}
}

// Each cell says how much of its positions is done: all only where it is all of them.
func TestCells(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + r.Int64N(6000)
		var spans []Span
		done := make([]bool, n)
		for at := int64(0); ; {
			start := at + r.Int64N(400)
			stop := start + 1 + r.Int64N(400)
			if stop > n {
				break
			}
			spans = append(spans, Span{start, stop})
			for i := start; i < stop; i++ {
				done[i] = true
			}
			at = stop + 1
		}
		got := cells(spans, n)
		count := int64(len(got))
		if count != min(n, cellCount) {
			t.Fatalf("%d cells of %d positions", count, n)
		}
		for c := range got {
			from, to := int64(c)*n/count, int64(c+1)*n/count
			have := int64(0)
			for i := from; i < to; i++ {
				if done[i] {
					have++
				}
			}
			if empty, full := got[c] == '0', got[c] == 'z'; empty != (have == 0) || full != (have == to-from) {
				t.Fatalf("n %d: cell %d is %c with %d of %d", n, c, got[c], have, to-from)
			}
		}
	}
	const huge = 1 << 62
	if got := cells([]Span{{0, huge / 2}}, huge); strings.Count(got, "z") != cellCount/2 || strings.Count(got, "0") != cellCount/2 {
		t.Errorf("2^62 positions: %s", got)
	}
	for _, bad := range [][]Span{{{5, 3}}, {{-4, 2}}, {{8, 99}}} { // what cannot be does no harm
		if got := cells(bad, 10); len(got) != 10 {
			t.Errorf("%v: %q", bad, got)
		}
	}
	if got := cells(nil, 0); got != "" {
		t.Errorf("no positions: %q", got)
	}
}
