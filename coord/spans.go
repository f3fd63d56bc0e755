package coord

import (
	"slices"

	"github.com/headrace/headrace/nd"
)

// spans are positions: spans that are not empty. Those of a set are in order and do
// not touch; those of a lane are in the order of delivery.
type spans []nd.Span

func (s spans) count() (n int64) {
	for _, x := range s {
		n += x.Stop - x.Start
	}
	return n
}

// add puts a span into a set that has none of its positions: joined to the ones before and
// behind it where they touch.
func (s *spans) add(x nd.Span) {
	i := 0 // the first one behind it
	for i < len(*s) && (*s)[i].Start < x.Start {
		i++
	}
	before := i > 0 && (*s)[i-1].Stop == x.Start
	behind := i < len(*s) && (*s)[i].Start == x.Stop
	switch {
	case before && behind:
		(*s)[i-1].Stop = (*s)[i].Stop
		*s = slices.Delete(*s, i, i+1)
	case before:
		(*s)[i-1].Stop = x.Stop
	case behind:
		(*s)[i].Start = x.Start
	default:
		*s = slices.Insert(*s, i, x)
	}
}

// missing is what of [0, n) a set does not have.
func (s spans) missing(n int64) (out spans) {
	at := int64(0)
	for _, x := range s {
		if at < x.Start {
			out = append(out, nd.Span{Start: at, Stop: x.Start})
		}
		at = x.Stop
	}
	if at < n {
		out = append(out, nd.Span{Start: at, Stop: n})
	}
	return out
}

// give appends a span to a lane, joined to the one before it where they touch.
func (s *spans) give(x nd.Span) {
	if k := len(*s); k > 0 && (*s)[k-1].Stop == x.Start {
		(*s)[k-1].Stop = x.Stop
		return
	}
	*s = append(*s, x)
}

// head takes n positions from the begin.
func (s *spans) head(n int64) (out spans) {
	for n > 0 && len(*s) > 0 {
		x := &(*s)[0]
		some := min(n, x.Stop-x.Start)
		out = append(out, nd.Span{Start: x.Start, Stop: x.Start + some})
		x.Start += some
		n -= some
		if x.Start == x.Stop {
			*s = (*s)[1:]
		}
	}
	return out
}

// tail takes n positions from the end. They stay in their order.
func (s *spans) tail(n int64) spans {
	rest := s.head(s.count() - n)
	out := *s
	*s = rest
	return out
}
