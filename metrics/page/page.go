package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy is what the page may do: run and show what comes from this server, and ask it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// fresh is how long an answer is good for: several people who look cost as much as one.
const fresh = 500 * time.Millisecond

// Server is what the page is put on.
type Server interface {
	// Handle adds what takes the server's key.
	Handle(pattern string, h http.Handler)
	// HandleOpen adds what is for anyone.
	HandleOpen(pattern string, h http.Handler)
}

// Mount puts the page on a server. Snapshot is called at most twice a second, by one
// goroutine at a time.
func Mount(s Server, snapshot func() Snapshot) {
	l := &live{snapshot: snapshot, now: time.Now}
	for path, f := range map[string]struct{ name, kind string }{
		"GET /{$}":      {"page.html", "text/html"},
		"GET /page.css": {"page.css", "text/css"},
		"GET /page.js":  {"page.js", "text/javascript"},
	} {
		s.HandleOpen(path, file(f.name, f.kind))
	}
	s.Handle("GET /live", http.HandlerFunc(l.serve))
	s.Handle("GET /debug/view", http.HandlerFunc(l.whole))
}

// file serves one file of the page.
func file(name, kind string) http.Handler {
	data, err := static.ReadFile("static/" + name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		answer(w, r, kind+"; charset=utf-8", data)
	})
}

// packed is from how many bytes on an answer is worth packing.
const packed = 2 << 10

// answer writes a body, packed if that pays and the client can.
func answer(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	if len(body) >= packed && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = pack(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client has gone: nothing to be done
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is one that there is
	_, _ = z.Write(body)                            // memory takes it
	_ = z.Close()
	return b.Bytes()
}

// whole answers with the Snapshot.
func (l *live) whole(w http.ResponseWriter, r *http.Request) {
	s, _ := l.newest()
	body, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, r, "application/json", append(body, '\n'))
}
