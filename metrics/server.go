package metrics

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // http.Server prints to standard error unless it has a logger, which here discards
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// scrapes is the number of answers to /metrics that are made at once: a scraper
	// that has lost patience and comes again does not pile up work.
	scrapes = 4
	// headers is the most of a request that is read; nothing here takes a body.
	headers = 16 << 10
	// slow is the time that a client may take to ask, slowAnswer that from then on
	// until it has read the answer: clients that do not read must not keep scrapes busy.
	slow       = 5 * time.Second
	slowAnswer = 30 * time.Second
	// farewell is the time that answers in progress get at Close.
	farewell = 2 * time.Second
)

// Options say where to serve and who may ask.
type Options struct {
	// Addr is host:port; port 0 is any free one, which Addr of the Server tells. An
	// address off loopback is refused without Key.
	Addr string
	// Key is what a request has to bring, as "Authorization: Bearer KEY"; "" is no key.
	Key string
	// OpenProbes has /healthz and /readyz answer without the key: a kubelet has none.
	OpenProbes bool

	// Health and Ready answer /healthz and /readyz: nil is yes, and so is no function.
	// They are called by several goroutines at once.
	Health, Ready func() error

	answer time.Duration // of tests; 0: slowAnswer
}

// Server is a running server. Its methods may be called by several goroutines.
type Server struct {
	registry *prometheus.Registry
	listener net.Listener
	mux      *http.ServeMux
	http     *http.Server
	done     chan struct{} // closed when serve has ended
	failed   error         // of serve; read after done
}

// New starts a server. It answers until Close.
func New(o Options) (*Server, error) {
	listener, err := listen(o)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Server{registry: prometheus.NewRegistry(), listener: listener, mux: http.NewServeMux(), done: make(chan struct{})}
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // one bad collector leaves the others' numbers
		MaxRequestsInFlight: scrapes,
	}))
	s.mux.Handle("GET /healthz", probe(o.Health))
	s.mux.Handle("GET /readyz", probe(o.Ready))
	s.http = &http.Server{
		Handler:           guard(o.Key, o.OpenProbes, s.mux),
		ReadHeaderTimeout: slow, ReadTimeout: slow, WriteTimeout: cmp.Or(o.answer, slowAnswer), MaxHeaderBytes: headers,
		ErrorLog: log.New(io.Discard, "", 0), // a scanner's bad requests are nobody's business
	}
	go s.serve()
	return s, nil
}

// listen opens the port, after it is clear that it may be opened.
func listen(o Options) (net.Listener, error) {
	if o.Addr == "" {
		return nil, errors.New("no address to listen at: 127.0.0.1:0 is any free port")
	}
	addr, err := net.ResolveTCPAddr("tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	if !addr.IP.IsLoopback() && o.Key == "" { // no IP is all interfaces
		return nil, fmt.Errorf("address %q is not on loopback, where others could read along: use 127.0.0.1, or give a key", o.Addr)
	}
	return net.ListenTCP("tcp", addr)
}

// serve is the server's goroutine; Close ends it.
func (s *Server) serve() {
	defer close(s.done)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.failed = err
	}
}

// Addr is where the server listens, with the port that it got.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Register adds a collector to /metrics. One that tells a name which another tells
// already is refused.
func (s *Server) Register(c prometheus.Collector) error {
	if err := s.registry.Register(c); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Handle adds a page, for example "GET /status". A pattern that is there already
// panics, as in http.ServeMux.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Close frees the port at once, gives answers in progress a moment, and waits until
// the server's goroutine has ended. A second Close does nothing.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.failed)
}

// probe answers a question of health in one line.
func probe(ask func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok"
		if ask != nil {
			if err := ask(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				text = strings.ReplaceAll(err.Error(), "\n", "; ")
			}
		}
		_, _ = io.WriteString(w, text+"\n") // the client has gone: nothing to be done
	})
}

// guard lets requests with the key through, and probes if they are open. Hashes are
// compared, so that the time it takes tells neither the key nor its length.
func guard(key string, open bool, next http.Handler) http.Handler {
	if key == "" {
		return next
	}
	want := sha256.Sum256([]byte("Bearer " + key))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
			next.ServeHTTP(w, r)
			return
		}
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the job's key is needed: Authorization: Bearer KEY", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
