// Package sim runs a job of many agents in one thread and in simulated time, breaks what
// can break, and watches that the job keeps its promises.
//
//	seed ── Draw ──▶ Scenario ── Run ──▶ World: hosts ▸ group.Node, ranks ──▶ Result
//	                    ▲                  │  network, gossip, faults
//	                    │                  ▼
//	          text ── Parse        logbook, monitors ── Violation ──▶ Shrink ──▶ text
//
// What runs are the agents' own parts: group.Node with its raft group and coord.Machine.
// What is simulated is all around them: clocks, the network, gossip, and the trainers whose
// ranks deliver steps or positions. One scenario has one history, bit for bit;
// Result.Digest is that of the history.
//
// # Who watches
//
//	logbook    each entry of the log once, as the first replica applies it: all others must
//	           apply the same, with the same effects and states (I1)
//	quorums    who votes, as the log changes it: a majority of those who have decided holds
//	           an entry when it is first applied (I2)
//	plain      the rules in prose, step by step and position by position; no code of the
//	           machine is in it (I3 to I8)
//	monitors   what each agent knows, and what each rank is given, held against the two
//	           (I2, I7, I8); how much an agent keeps and sends
//	trainers   a lockstep step counts when all ranks of one view have met in it, an async
//	           position when its rank hears that it does: once each (I4, I5)
//	settle     after the last fault the job comes to rest in time: one view of all who live,
//	           who vote and get on (I10), or, without a majority, nothing new and the reason
//	           (I11)
//
// A run ends with its first violation, which says invariant, time, node and what was seen.
//
// # The model of gossip
//
// Each observer holds its own opinion of each subject. One that cannot be reached, not
// through others either, is dead after times that were measured with real memberlist (see
// detection); one that comes back is alive within 15 s. An agent that
// stood still may hold all others for dead for a while.
//
// # What is not simulated
//
// Bytes that an attacker made: agents seal their messages, so that a broken one is
// dropped before it is parsed. Disks: there are none, a process that ends forgets all and
// is another member when it starts again. Wall clocks: agents see their host's
// monotonic time alone, which may run fast or slow and jump ahead, and never goes back.
package sim
