package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// NamedRow has the values of one thing, by names that come with them.
type NamedRow struct {
	Labels []string // values of the labels
	Values map[string]float64
}

// Named turns numbers whose names are not known before into metrics, for what others
// send. A name that ends in _total is a counter.
type Named struct {
	prefix, help string
	labels       []string
	snapshot     func() []NamedRow
}

// NewNamed makes a collector; prefix goes before each name. snapshot is called by several
// goroutines at once, and gives each row's labels once. Names must be made of letters,
// digits and underscores.
func NewNamed(prefix, help string, labels []string, snapshot func() []NamedRow) *Named {
	return &Named{prefix, help, labels, snapshot}
}

// Describe tells nothing: the names come with the values.
func (*Named) Describe(chan<- *prometheus.Desc) {}

// Collect is for Prometheus.
func (n *Named) Collect(out chan<- prometheus.Metric) {
	descs := map[string]*prometheus.Desc{}
	for _, row := range n.snapshot() {
		for name, value := range row.Values {
			desc := descs[name]
			if desc == nil {
				desc = prometheus.NewDesc(n.prefix+name, n.help, n.labels, nil)
				descs[name] = desc
			}
			kind := prometheus.GaugeValue
			if strings.HasSuffix(name, "_total") {
				kind = prometheus.CounterValue
			}
			m, err := prometheus.NewConstMetric(desc, kind, value, row.Labels...)
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, err)
			}
			out <- m
		}
	}
}
