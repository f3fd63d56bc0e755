// Package group is the decision loop of an agent: what it hears and sees goes in, with
// the time, and messages come out. It has no goroutine, clock, randomness or I/O, so
// that a simulator can run thousands of them in one thread.
//
//	Tick, Receive, Observe, Progress, Commit, Redo ──▶ Node ──▶ Outbox, State, Events
//
// A few of the agents, the voters of the view, hold the log of the job by
// go.etcd.io/raft/v3 and apply it to a coord.Machine. One of them leads: it makes
// entries of what agents report and of what gossip says. All other agents follow a
// voter, which sends them briefs.
//
// Log and state are in memory only. An agent that starts again is another agent, with
// another ID; so no voter ever forgets what it has promised, which is all that raft
// asks of a disk.
//
// The library draws the time of elections at random; here its own are out of reach, and a
// voter that has not heard of the leader for a while stands, the first one of the
// voters first.
package group
