// Package launcher starts the ranks of a job on one node and stays until they are
// gone: torchrun's command line, environment, logs and reports, without Python.
//
//	args ──Parse──▶ Spec ──Run──▶ supervisor ◀──events── rendezvous.Group
//	                                 │  ▲                 signals, timers
//	                          effects│  │events
//	                                 ▼  │
//	                    spawner (one OS thread) ──▶ workers, each leading a session
//	                    pipes ──▶ log tree, console
//
// The supervisor is a state machine without I/O: an event in, effects out. The
// shell around it (run.go) carries the effects out, one after the other, and feeds
// it what happens. Every worker is started and waited for by one locked OS thread,
// since Linux ties the death signal of a child to the thread that made it.
//
// Exit codes and differences from torchrun are in docs/launch.md.
package launcher
