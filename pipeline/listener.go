package pipeline

import "time"

// Listener is told what happens inside a pipeline. Any func may be nil. They are
// called on the scheduler's goroutine, one at a time, Noted on that of Open or
// AddArray: they must return soon and must not call the pipeline.
type Listener struct {
	// SampleFailed is called once for each bad sample, whatever the policy.
	SampleFailed func(SampleFailed)
	// BatchReady is called when a batch is published for Next.
	BatchReady func(BatchReady)
	// WaveBegin and WaveEnd frame the reading, decoding and assembling of a wave.
	WaveBegin func(WaveInfo)
	WaveEnd   func(WaveInfo)
	// Noted is told, once an array, what was accepted although its format does not
	// allow it.
	Noted func(Note)
}

// SampleFailed names a sample and its error.
type SampleFailed struct {
	Meta Meta
	ID   int64
	Err  error
}

// BatchReady describes a published batch.
type BatchReady struct {
	Meta    Meta
	Samples int
	Failed  int
}

// WaveInfo describes a wave; Took is zero at its begin.
type WaveInfo struct {
	Seq          int64
	Chunks, Jobs int
	Reads        int
	EncodedBytes int64
	DecodedBytes int64
	Took         time.Duration
}

// Note is a remark on an array that headrace reads all the same.
type Note struct {
	Array string
	Text  string
}
