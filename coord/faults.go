package coord

// Fault is a bug that tests switch on, to see that they would find it. It takes the build tag
// coordfault; without it there is none.
type Fault uint8

// The bugs.
const (
	NoFault           Fault = iota
	LostLaneForgotten       // what a lost rank had left is given to nobody
	StealKeeps              // a lane keeps the tail that it gives away
	ViewNotCounted          // a view has the number of the one before
	SessionKept             // an evicted member's commits stay known
	LeaseSurvivesLoss       // steps are leased while a member is lost
	CutTooEarly             // a member comes where ranks may have been
	OldRedo                 // a redo of an older view counts
	EvictedCommits          // a commit of an evicted member counts
	OldViewCommits          // a commit of an older view counts
	CommitTwice             // a commit that was proposed twice counts twice
	AnyLane                 // positions of another lane are committed
	ClosesEarly             // an epoch closes before all is done
	WaitingHoldUp           // ranks that wait for their view count in what an agent reports
	AllHeld                 // a leader takes what a voter has acknowledged for all that it has itself
	OldVotersUnasked        // those who voted before have no say in a change of voters
	NumberAgain             // an agent comes with the number of one that has voted
	// Faults is how many there are, with NoFault.
	Faults
)
