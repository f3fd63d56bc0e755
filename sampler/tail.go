package sampler

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Tail says what becomes of the last positions of an epoch that do not fill a
// global batch. None of the three delivers a sample twice.
type Tail uint8

const (
	// TailShort delivers them as a short batch.
	TailShort Tail = iota
	// TailDrop leaves them out of the epoch.
	TailDrop
	// TailMask delivers them in a batch of full shape: rows without a sample are
	// padding of weight 0. All batches of all ranks have the same number of rows.
	TailMask
)

var tailNames = [...]string{TailShort: "short", TailDrop: "drop", TailMask: "mask"}

// String is the name that ParseTail reads.
func (t Tail) String() string {
	if int(t) >= len(tailNames) {
		return fmt.Sprintf("Tail(%d)", t)
	}
	return tailNames[t]
}

// ParseTail reads "short", "drop" or "mask".
func ParseTail(name string) (Tail, error) {
	for t, known := range tailNames {
		if name == known {
			return Tail(t), nil
		}
	}
	return 0, nd.Errorf(nd.ErrConfig, "tail %q: one of %s", name, strings.Join(tailNames[:], ", "))
}
