// Package metrics serves numbers of this process over HTTP, for Prometheus and for
// probes of a scheduler, on one port:
//
//	/metrics   what the registered collectors tell
//	/healthz   200, or 503 and one line why not: the process should be replaced
//	/readyz    likewise: the process has no work yet, or no longer
//
// It knows neither launchers nor loaders. Who has numbers gives a Table, or any
// other collector, to Register.
package metrics
