// Command headrace looks at zarr arrays, reads crops of them, writes sample data
// and measures the engine. Run `headrace help`.
//
// This folder holds flags and printing only; what the commands do lies in the
// packages they call.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version of the program, equal to that of the Python package (a test compares
// the two).
const version = "0.1.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what the first cannot: a wait for a pipe's reader
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
