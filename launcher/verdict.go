package launcher

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// verdict is how the node's part of the job ended.
type verdict struct {
	code     int
	text     string               // one line; empty for success
	cause    error                // what text is of, where no worker was the reason
	root     *rendezvous.Failure  // the first failure, here or on another node
	failures []rendezvous.Failure // of this node's last round, by local rank
	stuck    []int
}

// refusedBy is the verdict of a group that has no round for this node.
func refusedBy(err error) verdict { return verdict{code: 1, text: err.Error(), cause: err} }

// ErrFailed is the kind of Run's error where the job failed or was stopped: Result
// tells how.
var ErrFailed = errors.New("the job failed")

// jobError is an ErrFailed with a text of its own.
type jobError struct{ text string }

func (e *jobError) Error() string        { return e.text }
func (e *jobError) Is(target error) bool { return target == ErrFailed }

// err is the verdict as an error, nil for success.
func (v verdict) err() error {
	switch {
	case v.cause != nil:
		return v.cause
	case v.text != "":
		return &jobError{v.text}
	}
	return nil
}

// failureVerdict is the exit code of a failure: the worker's own, 128+N for one
// that signal N killed, 1 where no worker failed.
func failureVerdict(f *rendezvous.Failure, reason string) (code int, text string) {
	switch {
	case f == nil && reason == "":
		return 1, "the job was stopped"
	case f == nil:
		return 1, reason
	case f.Message != "":
		return max(f.ExitCode, 1), f.Message
	case f.Signal != 0:
		return 128 + f.Signal, fmt.Sprintf("rank %d (local rank %d, pid %d) was killed by signal %d (%s)", f.Rank, f.LocalRank, f.PID, f.Signal, signalName(f.Signal))
	}
	return f.ExitCode, fmt.Sprintf("rank %d (local rank %d, pid %d) exited with code %d", f.Rank, f.LocalRank, f.PID, f.ExitCode)
}

func signalVerdict(n syscall.Signal, by string) (code int, text string) {
	return 128 + int(n), fmt.Sprintf("stopped by signal %d (%s)%s", int(n), signalName(int(n)), by)
}
