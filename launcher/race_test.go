//go:build race

package launcher_test

// raced: the race detector has memory of its own.
const raced = true
