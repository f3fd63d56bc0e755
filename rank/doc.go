// Package rank answers who this process is in its job and what part of its node
// it may use.
//
//	environment -> Detect -> Identity{Rank, World, LocalRank, …}
//	environment -> DetectNode -> NodePlace{Node, Nodes, …}, for a launcher
//	/proc, /sys/fs/cgroup -> ReadNode -> Node -> Share(local world)
//
// Variables and files are read through functions that the caller gives: inside
// Python the variables come as an argument, since Go cannot see os.environ. The
// package imports nothing of ours and starts nothing. An *Error is a mistake in
// the environment; callers report it as a bad config.
//
// All environment variables of headrace are parsed here:
//
//	HEADRACE_ENGINE    socket of the companion engine
//	HEADRACE_AGENT     socket of the launcher or agent that serves this node
//	HEADRACE_VIEW      number of the job's view at the start of the process
//	HEADRACE_KEY_FILE  file with the job's key
package rank
