package sim

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/nd"
)

// A scenario that was written is read as the same one, and has the same history.
func TestScenarioText(t *testing.T) {
	for seed := range uint64(200) {
		sc := Draw(seed, &Options{Faults: Kinds(), Profile: Profile(seed % 2)})
		back, err := Parse(strings.NewReader(sc.String()))
		if err != nil || !reflect.DeepEqual(back, sc) {
			t.Fatalf("%v\n%s\n%+v\n%+v", err, sc.String(), sc, back)
		}
	}
}

// What a scenario cannot say is refused, with its line.
func TestScenarioErrors(t *testing.T) {
	sc := Draw(1, &Options{})
	good := sc.String()
	for _, bad := range []string{
		"scenario 2", "seed x", "profile slow", "job mode=half", "job m=1", "job n=x", "ranks 1 x", "rack x", "pace 3", "duration x", "network loss=x", "network speed=1",
		"nonsense", "at 3s", "at x kill", "at 3s explode", "at 3s kill who=boss", "at 3s kill who=-1", "at 3s kill for=3", "at 3s kill by=x", "at 3s kill n=x", "at 3s kill set=1,x", "at 3s kill color=red", "at 3s jump who=1 by=-1s",
		"rack 0", "ranks -1", "job voters=4", "break 3", "at 1s flap who=0 other=1 for=5s by=-1s", "at 1s flap who=0 other=1 for=5s", "at -1s kill", "at 25h kill",
		"at 1s kill for=-1s", "at 1s drift n=-1000 who=0", "at 1s drift n=-1001 who=0", "at 1s doubt for=2562047h", "at 1s noise n=101", "at 1s noise n=-1", "at 1s join n=99999",
		"network loss=2", "network loss=NaN", "network corrupt=-1", "network jitter=-1s", "network latency=2m", "duration 25h", "pace -1s",
	} {
		if _, err := Parse(strings.NewReader(good + bad + "\n")); err == nil && (bad != "break 3" || !canBreak) {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := Parse(endless{}); !errors.Is(err, nd.ErrConfig) {
		t.Errorf("a file without end: %v", err)
	}
	if _, err := Parse(strings.NewReader("# nothing\n")); err == nil {
		t.Error("a scenario of no nodes was taken")
	}
}

// endless is a file as /dev/zero is, with lines.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '\n'
	}
	return len(b), nil
}

// A run that is not wanted any more ends early, and so does shrinking.
func TestRunEnds(t *testing.T) {
	done := make(chan struct{})
	close(done)
	sc := Draw(1, &Options{Nodes: 500, Ranks: 3, Faults: Kinds(), Duration: time.Hour})
	if r := Run(sc, Watch{Done: done}); r != nil {
		t.Errorf("it ran to its end: %v", r.Time)
	}
	if Breaks("memory", done)(&sc) {
		t.Error("a run that did not end broke an invariant")
	}
}

// Shrinking keeps what makes a scenario fail, and nothing else.
func TestShrink(t *testing.T) {
	sc := Draw(3, &Options{Nodes: 9, Faults: Kinds()})
	for k := range 12 {
		sc.Actions = append(sc.Actions, Action{At: time.Duration(20+k) * time.Second, Kind: []Kind{Noise, Stall, Doubt}[k%3], Who: "0", For: time.Second})
	}
	sc.Actions = append(sc.Actions, Action{At: 40 * time.Second, Kind: Kill, Who: "2", N: 30, By: 5 * time.Second})
	asked := 0
	small := Shrink(sc, 300, func(sc *Scenario) bool {
		asked++
		for _, a := range sc.Actions {
			if a.Kind == Kill && a.Who == "2" && len(sc.Ranks) > 2 {
				return true
			}
		}
		return false
	})
	if len(small.Actions) != 1 || small.Actions[0].Who != "2" || small.Actions[0].N > 1 || len(small.Ranks) != 3 || small.Network.Loss != 0 || small.Job.Epochs != 1 {
		t.Errorf("after %d runs:\n%s", asked, small.String())
	}
	if Shrink(sc, 0, func(*Scenario) bool { t.Error("asked"); return false }); asked > 300 {
		t.Errorf("asked %d times", asked)
	}
}

func FuzzScenario(f *testing.F) {
	sc := Draw(5, &Options{Faults: Kinds()})
	f.Add(sc.String())
	f.Add("scenario 1\nranks 1\njob voters=1 lease=1\nat 1s flap who=leader other=rank0 for=1s by=1ms set=1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		back, err := Parse(strings.NewReader(sc.String()))
		if err != nil || !reflect.DeepEqual(back, sc) {
			t.Fatalf("%v\n%+v\n%+v", err, sc, back)
		}
	})
}
