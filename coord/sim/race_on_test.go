//go:build race

package sim

// raced says that the race detector is on, under which all is ten times as slow.
const raced = true
