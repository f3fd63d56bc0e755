package session

import (
	"os"
	"runtime"

	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// Identity is who a client is, by the variables that it passed.
func Identity(env map[string]string) (rank.Identity, error) {
	id, _, err := rank.Detect(variables(env))
	if err != nil {
		return id, nd.Errorf(nd.ErrConfig, "%w", err)
	}
	return id, nil
}

// variables looks into variables that were passed on.
func variables(env map[string]string) rank.Lookup {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// Cores is a client's share of the node's cores, 0 if that is not known.
func Cores(env map[string]string) int {
	id, err := Identity(env)
	if err != nil {
		return 0 // the loader reports it; reading an array needs no rank
	}
	node, err := rank.ReadNode(os.ReadFile, runtime.NumCPU())
	if err != nil {
		return 0 // a machine without /proc
	}
	return node.Share(id.LocalWorld).Cores
}
