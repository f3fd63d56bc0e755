package main

import (
	"os"
	"runtime"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// identity is who this process is, by the variables that Python passed.
func identity(env map[string]string) (rank.Identity, error) {
	id, _, err := rank.Detect(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil {
		return id, nd.Errorf(nd.ErrConfig, "%w", err)
	}
	return id, nil
}

// limitCores keeps the ranks of a node from taking all of its cores each: Go
// would start as many threads as the machine has cores.
func limitCores(env map[string]string) {
	id, err := identity(env)
	if err != nil {
		return // the loader reports it; reading an array needs no rank
	}
	node, err := rank.ReadNode(os.ReadFile, runtime.NumCPU())
	if err != nil {
		return // a machine without /proc: Go's own count stands
	}
	runtime.GOMAXPROCS(node.Share(id.LocalWorld).Cores)
}
