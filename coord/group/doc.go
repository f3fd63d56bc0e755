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
// asks of a disk. A voter that was taken out keeps its promises for the same reason, and
// coord.Machine admits no other agent with the number of one that has voted. One that was
// evicted is ticked on while Lingers says so: its voice may be needed to replace it.
//
// An agent that leaves takes part until the others decide without it (Left). A leader hands over
// first; where no other voter is left, as of two agents, it evicts itself, and leads on with both
// sets of voters until one of the new ones does. So does every leader that is none of the new
// voters: who leads as a change of them ends is one who stays and tells the others.
//
// The library draws the time of elections at random; here its own are out of reach, and a voter
// that has not heard of the leader for a while stands, the first one of the voters first; while
// the voters change the old ones do so too, for all that was decided may be in the log of one of
// them alone. Where the last word of a leader was lost, voters tell each other in elections what
// is decided. A leader that hears of no majority names itself to nobody, decides nothing and asks
// others for newer views, as every agent does that hears of no leader; Node.Waiting says so.
// Where those that its view names do not answer, it asks whom gossip has found as well.
//
// Gossip has no suspicions here, for memberlist tells its delegates of none. Leases do not need
// them: none is extended before every member with ranks has reported, nor beyond two leases
// from where the last of them is. So one that falls silent ends the lease by its silence,
// well before gossip says that it is dead; its eviction waits for that, and for the grace.
//
// A rank of an async job that hangs while its agent lives is no matter of gossip: where others have
// nothing left to do and it commits nothing for a time (Config.Stall), the leader gives its lane to one
// of them. Whether that one hangs too nobody knows; those that have worked last come first.
//
// # What is said
//
//	who                        to whom          when
//	a voter                    its followers    what an entry has changed for them, as deltas of the view
//	an agent that is no voter  a voter          once a second: who it is, and what it knows (Follow)
//	an agent with ranks        the leader       when its ranks have come some way of the lease, or
//	                                            once a second (Report)
//	an agent with commits      the leader       one commit at a time (Ask)
//
// At 2048 agents a change costs about one message for each, and a redo another.
package group
