// Package coord is the agreement of a job whose ranks come and go: numbered views of
// who is in it, leases of steps, and which part of an epoch is done.
//
//	agents ── what they saw ──▶ leader ── Entry ──▶ log ──▶ Machine.Apply ──▶ effects
//	                                               (raft)   on every voter
//
// The Machine is a pure function of the log: no goroutine, clock, randomness, map order
// or I/O is in it, so all replicas are equal, and whatever is decided is decided by the
// place of an entry in the log. That order is the fence. A commit that comes behind the
// Change that evicted its author is void, however late it was noticed.
//
// # Entries
//
//	Form       view 0: the job, its first members, where it begins
//	Change     view n+1: members leave and come
//	Extend     the lease of a lockstep job: steps below the horizon may be delivered
//	Redo       lockstep: the trainer names the step from which all ranks go on
//	Commit     async: positions are done
//	Rebalance  async: the tail of a slow lane is given to an idle one, or all of one that stands still
//	Close      the epoch is complete
//
// An entry that does not fit where it stands in the log (a view that is over, a
// member twice) is ignored, with a reason, by every replica alike. So an entry may be
// proposed again whenever it is not known to be applied.
//
// # The two modes
//
// In lockstep the ranks meet at every step, in a collective of the trainer. Steps are
// counted through the job: step s of epoch e is e*Steps+s. A step may be delivered
// while it is below the horizon, which is at most two leases beyond what all ranks
// have done: without a majority nothing extends it, and the job runs dry with no clock
// involved. A view holds from its cut on. Members that only come do so at the horizon,
// beyond which no rank can be, and once all ranks have begun the view before, so that
// none ever has to know more than its view and the next one; when one is lost, the cut is
// what all had done, and nothing is leased until a Redo says where the trainer goes on.
// When the last rank is lost the job waits for its ranks as it did at its begin, and goes
// on where all had been, as by a Redo. Redos are counted: what was done before one does
// not count after it, and one that comes late or twice is none: a Redo names how many there
// were when its rank was halted, so that of several that answer one halt the first holds.
// The steps of a turn have the same ranks, who meet in one set of collectives. The job is over when
// its epochs are, or when all that have worked have left behind the last step of an epoch: then ranks
// that came late and had no step wait no more.
//
// In async mode each rank has a lane, spans of positions that it delivers in their
// order and commits. It may be ahead of what is committed by Job.Ahead positions:
// commits are its lease. A change of the view leaves lanes of the members that stay as
// they are, save for tails, and deals those of the lost out; a commit is effective if
// its author is the lane's, its view is the newest and its positions are the lane's
// next ones. All positions of an epoch are in exactly one lane or committed, so none is
// committed twice and none is forgotten.
//
// # Invariants
//
// They are numbered as in the tests, which watch them:
//
//	I1  at most one view has a number; replicas have the same
//	I2  a view is installed once a majority has applied its Change
//	I3  no commit of an evicted author or an older view is effective
//	I4  when an epoch closes, all its positions are committed, and the digest is the plan's
//	I5  no position is effective twice
//	I6  global batches depend on fingerprint, N, seed, epoch, G and blocks alone
//	I7  nothing is delivered beyond the horizon, or before the view is installed
//	I8  views and redos only grow at a member; its epoch does between two redos
//	I9  a process that starts again is a new member; the number of one that voted is not used again
//	I10 with a live majority and links that work in the end, a change is installed in time
//	I11 without it nothing new is delivered
package coord
