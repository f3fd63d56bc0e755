package launcher

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

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
func loaders(server *agentapi.Server) *metrics.Named {
	return metrics.NewNamed("headrace_loader_", "of the rank's loader", []string{"rank", "local_rank"}, func() []metrics.NamedRow {
		var rows []metrics.NamedRow
		for _, r := range server.Stats() {
			rows = append(rows, metrics.NamedRow{Labels: []string{strconv.Itoa(r.Rank), strconv.Itoa(r.LocalRank)}, Values: r.Stats})
		}
		return rows
	})
}

// serveMetrics opens the port of --metrics-port, on loopback.
func (sh *shell) serveMetrics() (func() error, error) {
	s := sh.spec
	if s.MetricsPort < 0 {
		return func() error { return nil }, nil
	}
	o := metrics.Options{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.MetricsPort)), Ready: sh.ready}
	if sh.live != nil {
		o.Health = sh.live.agent.Alive
	}
	server, err := metrics.New(o)
	if err != nil {
		return nil, inUse("--metrics-port", s.MetricsPort, nd.Errorf(nd.ErrIO, "--metrics-port %d: %w", s.MetricsPort, err))
	}
	sh.warn("metrics at http://" + server.Addr() + "/metrics")
	return server.Close, errors.Join(server.Register(sh.counters.table()), sh.showRanks(server))
}

// showRanks tells what the ranks' loaders tell: in a live job by the agent, which knows them
// by their ranks in the view, and has a page.
func (sh *shell) showRanks(server *metrics.Server) error {
	socket := sh.sockets.server
	switch {
	case sh.live != nil && socket != nil:
		sh.warn("page at http://" + server.Addr() + "/")
		return sh.live.agent.Show(server, socket.Stats)
	case socket != nil:
		return server.Register(loaders(socket))
	}
	return nil
}

// ready says what this node lacks: workers, and in a live job what its agent lacks.
func (sh *shell) ready() error {
	if n := int(sh.counters.running.Load()); n < sh.spec.Workers {
		return fmt.Errorf("%d of %d workers run", n, sh.spec.Workers)
	}
	if sh.live != nil {
		return sh.live.agent.Ready()
	}
	return nil
}
