// Package agentapi is the protocol of the Unix socket that HEADRACE_AGENT names:
// both of its ends, and the check of the ranks' plans.
//
//	rank ── hello, stats, plan ──▶ server of the node ── plans ──▶ server of node 0
//	rank ◀── hello, checked ────── server of the node ◀─ verdict ─ server of node 0
//
// A launcher or an agent serves its node's ranks (Serve), a rank's loader dials
// (Dial). What the server has to offer is in its hello; a client uses what is
// offered and does without the rest. How servers of different nodes reach one
// another is their owner's business (Options.Relay, Server.Receive).
//
// # Frames
//
// The socket is a stream of mode 0600. Each message is a frame: its length in
// four bytes, big-endian, and so many bytes of JSON, one object. A hello has at
// most 4 KiB, any other message at most MaxMessage bytes; a longer one ends the
// connection before it is read. Fields that a side does not know are skipped.
//
// # Messages
//
// The client begins. Its first message is a hello, and nothing else is answered
// before it:
//
//	{"type":"hello","protocol":"headrace-agent","version":1,
//	 "pid":P,"run_id":ID,"rank":R,"world":W,"local_rank":L,"round":N}
//
// The field version comes before all others in meaning: a side that sees another
// version than its own says so and hangs up. round is the round (HEADRACE_VIEW)
// that the rank belongs to, -1 where it does not know, and in a job whose ranks come and go
// the view that it was started in, which is not compared. The server answers
//
//	{"type":"hello","protocol":"headrace-agent","version":1,"offers":["plancheck","stats"]}
//
// or refuses (a rank of another job, another round, too many clients):
//
//	{"type":"error","error":{"kind":"config","text":"…"}}
//
// Then the client sends, in any order,
//
//	{"type":"stats","stats":{"samples_total":4096,…}}     about once a second; not answered
//	{"type":"plan","id":I,"plan":{…}}                     answered once
//	{"type":"checked","id":I}                             the answer: the plans fit
//	{"type":"checked","id":I,"error":{"kind":…,"text":…}} the answer: they do not
//
// with I chosen by the client. Stats are numbers under names of small letters,
// digits and underscores, at most MaxStats of them; the server keeps each rank's
// newest. Both sides end a connection by closing it.
//
// # The plan check
//
// A plan is what one rank is about to load (type Plan). Plans of the same name
// ("check") and round are compared once there is one of every rank of the world:
// Compare says what must hold. The servers send plans to the one of node 0 as
// documents of kind "plan" and get a document of kind "verdict" back, each with its
// round: {"round":N,"plan":{…}} and {"round":N,"check":C,"error":{…}}. A check that
// stays incomplete for Options.PlanTimeout fails with the ranks that are missing. Where ranks
// come and go (Round.World is 0) there is no world to wait for, and "plancheck" is not offered.
//
// # Coordination
//
// A server that offers "coord" takes ranks into a job whose members come and go. The
// client attaches, and gets states whenever something changes that concerns it, each of
// which replaces the one before:
//
//	{"type":"attach","seat":1,"attach":{"plan":HASH,"mode":"lockstep","n":N,"steps":S,…}}
//	{"type":"state","seat":1,"state":{"view":V,"rank":R,"world":W,"cut":C,"horizon":H,"redo":K,…},"decided":[…]}
//	{"type":"progress","seat":1,"progress":{"view":V,"redo":K,"done":D,"used":U}}   lockstep, at most ten a second
//	{"type":"redo","seat":1,"redo":{"view":V,"redo":K,"step":S,"by":B}}             lockstep
//	{"type":"commit","seat":1,"parts":[{"epoch":E,"span":{"start":A,"stop":B},"digest":HEX}]}   async
//	{"type":"detach","seat":1}
//
// seat numbers the attaches of a connection, from 1 and without a gap: each message names the
// attach that it belongs to, and what is said of one that has ended is skipped. view and redo
// are those of the state that the rank goes by.
//
// What they mean is in package coord.
//
// Kinds of errors are the words of package nd: "corrupt", "unsupported",
// "not-found", "shape", "io", "device", "closed", "budget", "config", "bug".
package agentapi
