//go:build !race

package launcher_test

const raced = false
