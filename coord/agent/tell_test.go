package agent

import "testing"

// Most of what an agent does brings nothing new for its ranks: that is seen without a look at
// all members, and costs no memory.
func TestNothingNewIsToldForNothing(t *testing.T) {
	if raced {
		t.Skip("-race allocates")
	}
	ctx := patient(t)
	a, _ := jobOfOne(t, ctx, 50)
	err := a.do(ctx, func() error {
		s := a.self.node.State()
		a.tell(s)
		if n := testing.AllocsPerRun(100, func() { a.tell(s) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
