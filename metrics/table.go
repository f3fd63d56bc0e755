package metrics

import (
	"fmt"
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Column is one metric of a Table.
type Column struct {
	Name    string // headrace_loader_samples_total, by Prometheus's naming
	Help    string
	Counter bool // it never falls while the process lives; else a gauge
}

// Row has the values of one thing, a rank for example.
type Row struct {
	Labels []string  // values of the table's labels
	Values []float64 // by column; NaN, and what is beyond the end, is not told
}

// Table turns plain numbers into metrics: rows of values, taken anew for each
// scrape.
type Table struct {
	columns  []*prometheus.Desc
	kinds    []prometheus.ValueType
	snapshot func() []Row
}

// NewTable makes a table with these labels. snapshot is called by several
// goroutines at once, and gives each row's labels once: a second row of the same
// labels makes the scrape incomplete.
func NewTable(labels []string, columns []Column, snapshot func() []Row) *Table {
	t := &Table{snapshot: snapshot}
	for _, c := range columns {
		kind := prometheus.GaugeValue
		if c.Counter {
			kind = prometheus.CounterValue
		}
		t.columns = append(t.columns, prometheus.NewDesc(c.Name, c.Help, labels, nil))
		t.kinds = append(t.kinds, kind)
	}
	return t
}

// Describe is for Prometheus. Names that are no names are refused at Register.
func (t *Table) Describe(out chan<- *prometheus.Desc) {
	for _, c := range t.columns {
		out <- c
	}
}

// Collect is for Prometheus. A row that does not fit the table is an error of the
// scrape that names the metric; the other rows are told.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	for _, row := range t.snapshot() {
		for i, value := range row.Values {
			if i < len(t.columns) && !math.IsNaN(value) {
				out <- t.metric(i, value, row.Labels)
			}
		}
	}
}

func (t *Table) metric(i int, value float64, labels []string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(t.columns[i], t.kinds[i], value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(t.columns[i], fmt.Errorf("row %q: %w", labels, err))
	}
	return m
}
