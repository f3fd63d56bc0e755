// Package companion is the engine as a process of its own: it serves loaders,
// pipelines and reads over a Unix socket to other processes, which then need no Go
// runtime. What is served lies in package session; this one is its transport.
//
//	trainer (Python, libheadrace_client.so)            engine
//	  connect ── hello: version, environment, pipe ──▶ check the peer, begin a session
//	  request ── open, ask, push, next, close ───────▶ session.Session
//	          ◀── result, batch (offsets), error ────
//	  memory  ◀── a slot, once ──────────────────────  a sealed memfd, or memory of a GPU
//	  release ── eight bytes down the pipe ──────────▶ Session.TakeBack
//
// # Connection
//
// The socket is of type SOCK_STREAM and mode 0600. Each side looks at the other's
// credentials (SO_PEERCRED) and goes on only if the user is its own. All numbers
// are little-endian, all text is UTF-8, all JSON is one value, and JSON with an
// unknown name is refused.
//
// Both sides begin with a greeting, whose form is the same in all versions:
//
//	8 bytes  "headrace"
//	4 bytes  version of the protocol, Version
//	4 bytes  length of what follows, at most MaxHello
//	JSON     client: Hello; engine: Welcome
//
// The client's greeting carries one descriptor by SCM_RIGHTS, on its first byte:
// the read end of its release pipe. An engine that does not want the client (other
// version, other user, too many clients) sends a Welcome with an error in one line,
// and closes. A client must not use a connection in a process forked from the one
// that said hello: Hello.PID tells which that is, and children close what they
// inherit.
//
// # Frames
//
//	4 bytes  length of the payload, at most MaxFrame
//	1 byte   kind
//	1 byte   number of descriptors that come with the frame, on its first byte
//	2 bytes  zero
//	8 bytes  id
//	payload
//
// A request has an id of the client's choosing, unique among those without a reply.
// Each is answered by one frame with its id, in any order:
//
//	request  payload                                            reply
//	open     JSON, see session.Session.Open                     result or error
//	ask      JSON: handle, method, argument                     result or error
//	close    8 bytes handle                                     result or error
//	push     8 bytes handle, 4 samples, 4 zero, words of 8      result, again or error
//	next     8 bytes handle, 4 timeout in ms, 4 zero            batch, again, ended or error
//	cancel   none; the id is that of the request to give up     none of its own
//
//	reply    payload
//	result   JSON: handle (of open), value
//	again    none: no room, or nothing came within the timeout
//	ended    none: the end of an epoch, or of what was pushed
//	error    JSON: kind, message; with id 0 the connection ends soon after it
//	batch    JSON: Batch
//	forget   ids of memory, 8 bytes each, that is used no more; its id is 0
//
// A request that is cancelled is answered all the same, at once, with an error or
// with what it came to. Whoever no longer waits for what a reply gives (a handle, a
// batch) sends its number down the release pipe.
//
// Paths in a request are relative to its "dir".
//
// # Memory
//
// A Batch names memory by id, and offsets of its tensors in it. Memory that the
// client does not know yet is described in the same frame (Batch.New). Hello.Memory
// lists the kinds that a client takes; one that lacks a kind of the engine's is
// refused. Each slot of a pipeline is one piece of memory, and whole batches lie in it.
//
// The kind "memfd" is a file of Bytes bytes, sealed against any change of size, to be
// mapped shared and writable. Its descriptor comes with the frame. The mapping
// outlives the engine.
//
// The kind "cuda_ipc" is an allocation on the GPU of a UUID: Handle is that of
// cuIpcGetMemHandle, for the primary context of that GPU in the client, whose number
// there may differ. It comes without a descriptor. A batch is finished when it is sent:
// the client's streams need not wait for it. The client opens an allocation once, and
// closes it when it may be forgotten and nothing looks at it any more. Then, or if it
// could not open it, it writes the id with bit 63 set to the release pipe: CUDA leaves
// undefined what a mapping shows of memory that was freed, so the engine tells what may
// be forgotten first and frees it after the client's word, or its end, or ten seconds.
// That of an engine that was killed stays with the client.
//
// A batch of no samples, and a read of a single crop, lie on no GPU.
//
// # Release
//
// A batch is given back by its token, an object that nobody waits for by its handle:
// eight bytes in the release pipe, written at once. That is all that a deleter does,
// on any thread. Numbers that the session does not know are ignored. One with
// bit 63 is no such number but the id of memory, see above.
//
// A batch on a GPU may be written again as soon as its token has come. So the client
// marks, at the last release, the streams that used the batch, and sends the token
// when they have passed the mark; a thread of libheadrace_client waits for that, one
// for each slot that waits: a slow stream keeps the slots of others not back.
//
// # Ends
//
// When the connection ends, or the process that said hello does, the engine cancels
// the client's requests, closes its objects, takes back its batches and frees their
// memory. When the engine ends, the client reads the end of the stream: every call
// that waits fails at once, batches that are held stay valid, and a new connection
// may be made. An engine that is asked to stop (SIGTERM) takes no more clients and
// requests, answers those under way within a grace of two seconds, and closes; memory on
// a GPU that a client has open after as long again goes all the same.
//
// What outlives a client is what the machine keeps: the page cache of the files it
// read, and the engine itself, so that the next client starts no runtime. Decoded
// chunks belong to the pipeline that decoded them and go with it: the next one may
// not assume that the files are still the same.
package companion
