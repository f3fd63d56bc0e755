package metrics_test

import (
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/headrace/headrace/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, o metrics.Options) *metrics.Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s, err := metrics.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// get asks without keeping the connection.
func get(t *testing.T, s *metrics.Server, path, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// scrape reads /metrics with Prometheus's own parser.
func scrape(t *testing.T, s *metrics.Server) map[string]*dto.MetricFamily {
	t.Helper()
	status, body := get(t, s, "/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if status != http.StatusOK || err != nil {
		t.Fatalf("%d, %v:\n%s", status, err, body)
	}
	return families
}

// values are those of one metric by its first label.
func values(f *dto.MetricFamily) map[string]float64 {
	got := make(map[string]float64)
	for _, m := range f.GetMetric() {
		v := m.GetGauge().GetValue()
		if f.GetType() == dto.MetricType_COUNTER {
			v = m.GetCounter().GetValue()
		}
		got[m.GetLabel()[0].GetValue()] = v
	}
	return got
}

var columns = []metrics.Column{
	{Name: "headrace_samples_total", Help: "samples delivered", Counter: true},
	{Name: "headrace_queue", Help: "batches that wait"},
}

// Plain numbers arrive as metrics, each scrape with the newest.
func TestTable(t *testing.T) {
	s := serve(t, metrics.Options{})
	var mu sync.Mutex
	rows := []metrics.Row{{[]string{"0"}, []float64{10, 3}}, {[]string{"1"}, []float64{11, math.NaN()}}, {[]string{"2"}, []float64{12}}}
	if err := s.Register(metrics.NewTable([]string{"rank"}, columns, func() []metrics.Row {
		mu.Lock()
		defer mu.Unlock()
		return rows
	})); err != nil {
		t.Fatal(err)
	}
	f := func(samples, queue map[string]float64) {
		t.Helper()
		families := scrape(t, s)
		for name, want := range map[string]map[string]float64{columns[0].Name: samples, columns[1].Name: queue} {
			got := values(families[name])
			if len(got) != len(want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
			for rank, v := range want {
				if got[rank] != v {
					t.Errorf("%s: got %v, want %v", name, got, want)
				}
			}
		}
		if kind := families[columns[0].Name].GetType(); len(samples) > 0 && kind != dto.MetricType_COUNTER {
			t.Errorf("%s is a %s", columns[0].Name, kind)
		}
	}
	f(map[string]float64{"0": 10, "1": 11, "2": 12}, map[string]float64{"0": 3})
	mu.Lock()
	rows = []metrics.Row{{[]string{"1"}, []float64{20, 0, 7}}} // the value beyond the columns is not told
	mu.Unlock()
	f(map[string]float64{"1": 20}, map[string]float64{"1": 0})
	mu.Lock()
	rows = append(rows, metrics.Row{[]string{"2", "x"}, []float64{1}}) // more labels than the table has
	mu.Unlock()
	f(map[string]float64{"1": 20}, map[string]float64{"1": 0})
}

// Two servers of one process do not meet in a global registry; one name is told by
// one collector.
func TestRegister(t *testing.T) {
	one, two := serve(t, metrics.Options{}), serve(t, metrics.Options{})
	none := func() []metrics.Row { return nil }
	for _, s := range []*metrics.Server{one, two} {
		if err := s.Register(metrics.NewTable([]string{"rank"}, columns, none)); err != nil {
			t.Error(err)
		}
	}
	if err := one.Register(metrics.NewTable([]string{"rank"}, columns[:1], none)); err == nil {
		t.Error("the same name twice")
	}
	if err := one.Register(metrics.NewTable(nil, []metrics.Column{{Name: ""}}, none)); err == nil {
		t.Error("no name")
	}
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "up"})
	gauge.Set(1)
	if err := one.Register(gauge); err != nil {
		t.Error(err)
	}
	if f := scrape(t, one)["up"]; len(f.GetMetric()) != 1 {
		t.Errorf("got %v", f)
	}
}

func TestProbes(t *testing.T) {
	s := serve(t, metrics.Options{Health: func() error { return nil }, Ready: func() error { return errors.New("rendezvous:\n2 of 4 nodes") }})
	s.Handle("GET /status", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	for path, want := range map[string]struct {
		status int
		body   string
	}{"/healthz": {200, "ok\n"}, "/readyz": {503, "rendezvous:; 2 of 4 nodes\n"}, "/status": {200, "{}"}, "/debug/pprof": {404, "404 page not found\n"}} {
		if status, body := get(t, s, path, ""); status != want.status || body != want.body {
			t.Errorf("%s: got %d %q", path, status, body)
		}
	}
	if status, _ := get(t, serve(t, metrics.Options{}), "/readyz", ""); status != http.StatusOK {
		t.Errorf("without a function: got %d", status)
	}
	answer, err := http.Post("http://"+s.Addr()+"/healthz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", answer.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Off loopback nothing is served without a key, and with one nothing to those who
// do not have it.
func TestKey(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		if s, err := metrics.New(metrics.Options{Addr: addr}); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: got %v, %v", addr, s, err)
		}
	}
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x"} {
		if s, err := metrics.New(metrics.Options{Addr: addr, Key: "k"}); err == nil {
			t.Errorf("%s: got %v", addr, s)
		}
	}
	s := serve(t, metrics.Options{Addr: "127.0.0.1:0", Key: "secret"})
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		for key, want := range map[string]int{"secret": 200, "": 401, "secre": 401, "secret2": 401} {
			if status, _ := get(t, s, path, key); status != want {
				t.Errorf("%s with %q: got %d", path, key, status)
			}
		}
	}
}

// A kubelet's probes bring no key; the numbers still want it.
func TestOpenProbes(t *testing.T) {
	s := serve(t, metrics.Options{Addr: "127.0.0.1:0", Key: "secret", OpenProbes: true})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/": 401, "/readyz/": 401} {
		if status, _ := get(t, s, path, ""); status != want {
			t.Errorf("%s without a key: got %d", path, status)
		}
	}
}

// A port in use is an error that names it; Close frees it, ends what is asked
// afterwards, and can be called again.
func TestClose(t *testing.T) {
	s := serve(t, metrics.Options{})
	if other, err := metrics.New(metrics.Options{Addr: s.Addr()}); err == nil || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("got %v, %v", other, err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	again := serve(t, metrics.Options{Addr: s.Addr()})
	if status, _ := get(t, again, "/healthz", ""); status != http.StatusOK {
		t.Errorf("got %d", status)
	}
}

// A request that is being answered when the server is closed is answered.
func TestCloseIsGraceful(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := serve(t, metrics.Options{Health: func() error {
		close(asked)
		<-answer
		return nil
	}})
	got := make(chan int, 1)
	go func() {
		status := 0
		if a, err := http.Get("http://" + s.Addr() + "/healthz"); err == nil {
			status = a.StatusCode
			_ = a.Body.Close()
		}
		got <- status
	}()
	<-asked
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for { // until the port is free: Close has begun
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			break
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(answer)
	if status, err := <-got, <-closed; status != http.StatusOK || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// Clients that ask and do not read are hung up on, so that others are answered.
func TestClientsThatDoNotRead(t *testing.T) {
	var o metrics.Options
	o.SlowAnswer(200 * time.Millisecond)
	s := serve(t, o)
	long := strings.Repeat("x", 1<<10) // 16 MiB in all: more than sockets hold
	rows := make([]metrics.Row, 16<<10)
	for i := range rows {
		rows[i] = metrics.Row{Labels: []string{long + strconv.Itoa(i)}, Values: []float64{1}}
	}
	var scrapes sync.WaitGroup
	scrapes.Add(4)
	var asked atomic.Int32
	table := metrics.NewTable([]string{"rank"}, []metrics.Column{{Name: "headrace_test", Help: "h"}}, func() []metrics.Row {
		if asked.Add(1) > 4 {
			return nil
		}
		scrapes.Done()
		return rows
	})
	if err := s.Register(table); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the server has hung up
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	scrapes.Wait()
	for began := time.Now(); ; {
		code, _ := get(t, s, "/metrics", "")
		if code == http.StatusOK {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("still %d", code)
		}
	}
}
