package main

import (
	"runtime"

	"github.com/headrace/headrace/companion/session"
)

// limitCores keeps the ranks of a node from taking all of its cores each: Go
// would start as many threads as the machine has cores.
func limitCores(env map[string]string) {
	if n := session.Cores(env); n > 0 {
		runtime.GOMAXPROCS(n)
	}
}
