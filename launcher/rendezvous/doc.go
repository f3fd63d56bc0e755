// Package rendezvous lets the nodes of a job find one another and agree, round by
// round, on who takes part, who is which, and when the job is over.
//
//	launcher ◀─ Round, Event ── member ◀─ welcome, round, event ── coordinator
//	launcher ── Next, Report ─▶ member ── join, ready, outcome ──▶  (machine)
//
// It knows nodes, not workers: a node reports how its workers of a round ended, and
// is told what that means for the job. Group is the contract with the launcher;
// Single is a job of one node, Join one of several.
//
// # Roles
//
// Every node is a member. One of them is also the coordinator: node rank 0 of a
// static job; in an elastic one the node whose address the endpoint is, or that
// Config.Host names. The rules are in machine (the coordinator's) and member, which
// are pure: events in, effects out, no clock, no I/O. A job of one node runs the two
// in one process without a network. The end of the coordinator's node ends the job;
// the loss of another is an event, at once where its kernel says so and after
// Attempts heartbeats of silence otherwise.
//
// # Rules
//
// A static round begins when all asked ranks are there; the listener is closed then,
// since the port is the master's, and the connections stay for what follows. An
// elastic round begins at once at Max nodes, or LastCall after there were Min. It
// fails after JoinTimeout.
//
// Any failure reaches all nodes at once. While the job's budget (MaxRestarts) lasts,
// it restarts all of them; the next one stops the job with its cause. The loss of a
// node is paid for like a failure; in a static job it ends the job, since nobody can
// take the node's place. A node that comes late, while there is room, restarts the
// others for free; one that then goes again has that restart charged, so that nodes
// cannot come and go for ever. Nodes beyond Max stand by. A signal stops all.
//
// A live job (Config.Live) has one round. What its workers do is not reported here, but
// for what is to stop all. A node that comes late is let into the round, one that is lost
// leaves it, and the end of the coordinator's node ends nothing but this.
//
// The job is over when every node of the round has succeeded. ExitTimeout after the
// first success the others are released: each goes on alone, to its own result.
//
// Ranks are stable (assign): asked ranks are given, survivors keep theirs, a node
// that returns gets its old one, others fill the holes.
//
// Before workers start, every node dials the master's address at the master's port,
// on which rank 0's node listens for that moment. The port is held from the join on
// (Port).
//
// # Protocol
//
// A TCP stream of frames: a length in four bytes, big-endian, and so many bytes of
// JSON, one object. The client begins.
//
//	client  {"protocol":"headrace-rendezvous","version":1,"nonce":C}
//	server  {"protocol":"headrace-rendezvous","version":1,"nonce":S}
//	client  {"mac":HMAC-SHA256(key, "headrace-rendezvous" "client" C S)}
//	server  {"mac":HMAC-SHA256(key, "headrace-rendezvous" "server" C S)} or {"refused":"why"}
//
// Nonces have 32 bytes; bytes are in base64. The greetings are the same in every
// version: sides of different versions tell each other so and part. Until here a
// frame has at most 4 KiB and the whole takes at most 10 s. The key is that of
// HEADRACE_KEY_FILE, or derived from run id and endpoint port. It authenticates the
// nodes when they meet; what follows is neither encrypted nor signed.
//
// Then the client sends a join, answered by welcome or refused, and after that the
// messages of message.go go both ways, each with a beat where there is nothing else
// to say. Whoever has no more to say closes its half, and reads the other's to the
// end: so the last event arrives although the coordinator's process is about to end.
package rendezvous
