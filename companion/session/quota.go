package session

import (
	"sync/atomic"

	"github.com/headrace/headrace/nd"
)

// Quota counts what several sessions share.
type Quota struct {
	most int64
	used atomic.Int64
}

// NewQuota makes a quota of so many pipelines.
func NewQuota(most int) *Quota { return &Quota{most: int64(most)} }

// take takes one; every success is followed by one give.
func (q *Quota) take() error {
	if q == nil {
		return nil
	}
	if n := q.used.Add(1); n > q.most {
		q.used.Add(-1)
		return nd.Errorf(nd.ErrBudget, "%d pipelines are open in the engine, which allows no more: close some, or start it with a larger --max-pipelines", q.most)
	}
	return nil
}

func (q *Quota) give() {
	if q != nil {
		q.used.Add(-1)
	}
}

// Used is the number that is taken.
func (q *Quota) Used() int { return int(q.used.Load()) }
