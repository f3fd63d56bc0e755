// Package agent is a node's part in a job whose ranks come and go: the shell around
// the decision loop of package group.
//
//	ranks ── Unix socket (agentapi, "coord") ──┐
//	other agents ── streams (internal/sealed) ─┼──▶ one goroutine ──▶ group.Node ──▶ streams, socket
//	gossip (memberlist) ── who is there ───────┘        ▲
//	                                             clock ─┘
//
// All that happens is queued for one goroutine, which owns the Node: callbacks of
// memberlist and readers of sockets only put into the queue, and it waits for none of them, but
// for short locks (the seats' server's, gossip's). Gossip says who may be dead;
// the end of a rank's connection says that the rank is, at once. What is decided comes
// from the group alone.
//
// What the agent counts and remembers for people is in watch.go and drops.go; Snapshot makes
// one picture of it and of the job, which Observe serves: metrics, probes, the page.
//
// An agent that the others have evicted, since they could not reach it, begins again as
// another member by itself; its ranks stay attached and see a new view.
package agent
