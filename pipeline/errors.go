package pipeline

import "fmt"

// SampleError is the failure of one sample.
type SampleError struct {
	ID  int64
	Err error
}

func (e *SampleError) Error() string { return fmt.Sprintf("sample %d: %v", e.ID, e.Err) }

// Unwrap gives the cause, which matches one kind of package nd.
func (e *SampleError) Unwrap() error { return e.Err }

// BatchError is what Next returns in place of a batch under Raise: the samples
// that failed, at least one.
type BatchError struct {
	Meta    Meta
	Samples []*SampleError
}

func (e *BatchError) Error() string {
	text := e.Samples[0].Error()
	if n := len(e.Samples); n > 1 {
		text += fmt.Sprintf(" (and %d more samples of this batch)", n-1)
	}
	return text
}

// Unwrap gives the failures, so that errors.Is finds the kind of each.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, len(e.Samples))
	for i, s := range e.Samples {
		errs[i] = s
	}
	return errs
}
