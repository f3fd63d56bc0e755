package launcher

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/metrics"
	"github.com/headrace/headrace/nd"
)

// counters are what the launcher tells of itself. Any goroutine may read them.
type counters struct {
	running, started, failed, rounds, restarts, nodes atomic.Int64
}

// table is the launcher's own metrics.
func (c *counters) table() *metrics.Table {
	columns := []metrics.Column{
		{Name: "headrace_launcher_workers", Help: "workers of this node that run"},
		{Name: "headrace_launcher_workers_started_total", Help: "workers that were started", Counter: true},
		{Name: "headrace_launcher_worker_failures_total", Help: "workers that failed, or were told to end and did not exit 0", Counter: true},
		{Name: "headrace_launcher_rounds_total", Help: "starts of the job's workers", Counter: true},
		{Name: "headrace_launcher_restarts", Help: "restarts charged to the job's budget"},
		{Name: "headrace_launcher_nodes", Help: "nodes of the round"},
	}
	return metrics.NewTable(nil, columns, func() []metrics.Row {
		row := metrics.Row{}
		for _, v := range []*atomic.Int64{&c.running, &c.started, &c.failed, &c.rounds, &c.restarts, &c.nodes} {
			row.Values = append(row.Values, float64(v.Load()))
		}
		return []metrics.Row{row}
	})
}

// loaders tells the newest stats that each rank's loader has sent, under the names
// that it gave them.
type loaders struct{ server *agentapi.Server }

// Describe tells nothing: the names come with the stats.
func (loaders) Describe(chan<- *prometheus.Desc) {}

// Collect is for Prometheus.
func (l loaders) Collect(out chan<- prometheus.Metric) {
	for _, r := range l.server.Stats() {
		for name, value := range r.Stats {
			kind := prometheus.GaugeValue
			if strings.HasSuffix(name, "_total") {
				kind = prometheus.CounterValue
			}
			desc := prometheus.NewDesc("headrace_loader_"+name, "of the rank's loader", []string{"rank", "local_rank"}, nil)
			out <- prometheus.MustNewConstMetric(desc, kind, value, strconv.Itoa(r.Rank), strconv.Itoa(r.LocalRank))
		}
	}
}

// serveMetrics opens the port of --metrics-port, on loopback.
func (sh *shell) serveMetrics() (func() error, error) {
	s := sh.spec
	if s.MetricsPort < 0 {
		return func() error { return nil }, nil
	}
	server, err := metrics.New(metrics.Options{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.MetricsPort)),
		Ready: func() error {
			if n := int(sh.counters.running.Load()); n < s.Workers {
				return fmt.Errorf("%d of %d workers run", n, s.Workers)
			}
			if sh.live != nil {
				return sh.live.ready()
			}
			return nil
		},
	})
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "--metrics-port %d: %w", s.MetricsPort, err)
	}
	err = server.Register(sh.counters.table())
	if sh.sockets.server != nil {
		err = errors.Join(err, server.Register(loaders{sh.sockets.server}))
	}
	sh.warn("metrics at http://" + server.Addr() + "/metrics")
	return server.Close, err
}
