//go:build !race

package agent

// raced is whether the race detector is on: it makes all some ten times slower.
const raced = false
