package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/group"
	"github.com/headrace/headrace/internal/plural"
	"github.com/headrace/headrace/nd"
)

// Agent is a node's agent. It starts its goroutines when it is opened; Close ends them.
type Agent struct {
	config  Config
	address string // by which others reach it
	port    *port
	links   *links
	began   time.Time

	inbox *queue
	stop  chan struct{}
	done  sync.WaitGroup

	ending context.Context // ends with stop
	hurry  context.CancelFunc

	// These belong to the one goroutine of run.
	self    incarnation
	seats   map[int]*seat // by local rank
	seated  uint64        // how many there were
	told    map[int]agentapi.JobState
	said    said             // what told was made of
	former  *agentapi.Attach // what the ranks mean by the job, from the first of them
	order   []int
	found   []string      // where agents of the job were as it was evicted, besides the contacts
	stuck   error         // why it could not begin again
	retry   time.Duration // when it tries once more; 0: it is trying
	refused error         // why there is no part for this node
	waits   string        // why nothing new is decided, as it was last told
	alone   time.Duration // since when there was no majority; 0: there is one
	memo    []byte        // see Tell
	foreign string        // what was last said of another job of this name
	scout   scout
	watch   watch
	stats   func() []agentapi.RankStats // of this node's loaders; nil: nobody tells
	loads   map[int]*load               // of them, by local rank

	drops  drops
	settle prometheus.Histogram

	mu struct { // the innermost lock, but for those of who looks: it is held while their function runs, see Look
		sync.Mutex
		state   group.State
		self    coord.ID
		peers   map[coord.ID]Peer
		fresh   bool // of peers something is new
		waiting string
		voters  int
		deaf    bool
		closed  bool
		refused error
	}
	failed chan struct{} // closed when the agent has given up, or was refused
}

// incarnation is the agent as a member: another one each time it begins again.
type incarnation struct {
	id     coord.ID
	node   *group.Node // nil before there is a rank that says what the job is
	gossip *gossip
	forms  time.Duration // when it forms the job, unless it has heard of it; 0: it does not
}

// seat is an attached rank.
type seat struct {
	*agentapi.Seat
	local  int
	number uint64 // of its own: who takes a local rank's place has another one
	view   uint64 // that it has entered, after so many redos
	redo   uint64
	done   int64
	used   int64
	ends   bool          // it leaves behind the last step of an epoch
	ended  time.Duration // when its process was gone, if who has started it has said so

	vacated chan struct{} // closed when it is its seat no more
}

// Open starts an agent.
func Open(cfg Config) (*Agent, error) {
	cfg.fill()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &Agent{
		config: cfg, address: cfg.Advertise, began: time.Now(), inbox: newQueue(), stop: make(chan struct{}), failed: make(chan struct{}),
		seats: map[int]*seat{}, told: map[int]agentapi.JobState{}, loads: map[int]*load{}, settle: newSettle(),
	}
	a.ending, a.hurry = context.WithCancel(context.Background())
	a.watch = newWatch(a.settle.Observe)
	listener, err := openPort(cfg.Listen, &a.drops, a)
	if err != nil {
		return nil, err
	}
	a.port, a.mu.peers = listener, map[coord.ID]Peer{}
	if a.address == "" {
		a.address = listener.Addr().String()
	}
	a.links = openLinks(listener, cfg.Key, &a.drops, func(m []byte) { a.inbox.put(received(m)) })
	if cfg.Witness {
		at, err := cfg.resolve(a.ending, a.address)
		if err == nil {
			err = a.begin(at)
		}
		if err != nil {
			a.links.close()
			return nil, err
		}
	}
	a.done.Go(a.run)
	return a, nil
}

// Address is where others reach the agent.
func (a *Agent) Address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.address
}

// State is what the agent knows of the job.
func (a *Agent) State() group.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.state
}

// Close leaves the job and ends all that the agent has started. It waits until the others decide
// without this agent, for some seconds at most.
func (a *Agent) Close() error {
	a.mu.Lock()
	first := !a.mu.closed
	a.mu.closed = true
	a.mu.Unlock()
	if first {
		close(a.stop)
		a.hurry()
	}
	a.done.Wait()
	return nil
}

// received, seen, coord.Stamp, and calls are what is queued.
type (
	received []byte
	call     func()
)

// do has a function run by the agent's goroutine, and waits for it.
func (a *Agent) do(ctx context.Context, f func() error) error {
	answer := make(chan error, 1)
	a.inbox.put(call(func() { answer <- f() }))
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-a.stop:
		return nd.Errorf(nd.ErrClosed, "agent: %w", errEnded)
	}
}

// run is the agent's one goroutine.
func (a *Agent) run() {
	beat := time.NewTicker(a.config.profile().Beat)
	defer beat.Stop()
	for {
		select {
		case <-a.stop:
			a.leave(beat.C)
			a.end()
			return
		case <-beat.C:
			a.bury()
			if a.self.node != nil {
				a.self.node.Tick(a.now())
				a.formUnheard()
			} else if a.stuck != nil && a.retry > 0 && a.now() >= a.retry {
				a.beginAgain()
			}
			a.ask()
			a.watchMajority()
		case <-a.inbox.wake:
			list, dropped := a.inbox.take()
			for _, x := range list {
				a.take(x)
			}
			if dropped > 0 {
				a.drops[dropInbox].Add(int64(dropped))
				a.event("dropped", fmt.Sprintf("%d messages: more came than this agent could take", dropped))
			}
		}
		a.act()
	}
}

func (a *Agent) now() time.Duration { return time.Since(a.began) }

func (a *Agent) take(x any) {
	if f, ok := x.(call); ok {
		f()
		return
	}
	n := a.self.node
	if n == nil {
		return
	}
	switch x := x.(type) {
	case received:
		a.watch.received++
		n.Receive(a.now(), x)
	case noted:
		a.noted(x)
		if x.gone {
			n.Gone(a.now(), x.id, "it left")
		}
	case seen:
		a.watch.sees(a.now(), x)
		a.sees(x)
		n.Observe(a.now(), coord.Source{ID: x.id, Address: x.address}, x.state)
		if x.gone {
			n.Gone(a.now(), x.id, "it left")
		}
	case coord.Stamp:
		n.Hear(a.now(), x)
	}
}

// carry does what the node wants done.
func (a *Agent) carry() {
	n := a.self.node
	for _, s := range n.Outbox() {
		a.watch.sent++
		a.links.send(s.To.Address, s.Message)
	}
	for _, e := range n.Events() {
		a.note(e)
	}
	if a.self.gossip != nil {
		a.self.gossip.spread(n.Stamp())
	}
}

// act does that, and tells the ranks what is new.
func (a *Agent) act() {
	n := a.self.node
	if n == nil {
		return
	}
	a.carry()
	state := n.State()
	if now := a.now(); a.watch.due(now) {
		a.sample(now, &state)
	}
	a.keep(state)
	switch {
	case state.Ending == "":
		a.tell(state)
	case state.Refused != "":
		a.fail(nd.Errorf(nd.ErrConfig, "the job does not take this node: %s", state.Ending))
	default:
		a.again(state.Ending)
	}
}

// fail tells the ranks that there is no part for them, and ends Serve.
func (a *Agent) fail(why error) {
	if a.refused == nil {
		close(a.failed)
	}
	a.refused = why
	a.mu.Lock()
	a.mu.refused = why
	a.mu.Unlock()
	for _, local := range a.order {
		a.seats[local].Fail(why)
	}
	a.quit()
}

// watchMajority says why nothing new is decided, once for each reason, and gives up after a
// while without a majority: those who have one go on without this node, and nobody else can.
// Before the first view nobody of the job answers at all, which counts alike, whether or not there
// is a rank yet.
func (a *Agent) watchMajority() {
	if a.refused != nil {
		return
	}
	why := a.waiting()
	switch {
	case why != "" && why != a.waits:
		a.event("waiting", why)
	case why == "" && a.waits != "":
		a.event("goes on", "it was waiting: "+a.waits)
	}
	a.waits = why
	if a.self.node == nil {
		a.mu.Lock()
		a.mu.waiting = why
		a.mu.Unlock()
	}
	switch {
	case !a.lonely():
		a.alone = 0
	case a.alone == 0:
		a.alone = a.now()
	case a.config.Alone > 0 && a.now()-a.alone >= a.config.Alone:
		err := nd.Errorf(nd.ErrIO, "the job is given up on this node: for %v %s", a.config.Alone, a.unheard(why))
		a.event("gives up", err.Error())
		a.fail(err)
	}
}

// lonely reports that no majority answers, or nobody of the job does.
func (a *Agent) lonely() bool {
	n := a.self.node
	if n == nil {
		return a.searches() && !a.scout.found
	}
	return n.Deaf() || n.State().View == nil
}

// unheard says more of why no job was found: what was dropped, and who tells more.
func (a *Agent) unheard(why string) string {
	if n := a.self.node; n != nil && n.State().View != nil || len(a.config.Contacts) == 0 {
		return why
	}
	asked := a.config.Contacts[:min(len(a.config.Contacts), mostAsked)]
	return fmt.Sprintf("%s; asked: %s; dropped: %s; `headrace doctor --gossip %s` tells more",
		cmp.Or(why, "no agent of the job has answered yet"), strings.Join(asked, ", "), cmp.Or(a.drops.String(), "nothing"), strings.Join(asked, ","))
}

// quit ends this agent's part as a member.
func (a *Agent) quit() {
	if g := a.self.gossip; g != nil {
		g.drop()
		a.done.Go(g.done.Wait) // a contact may be slow, and ranks and probes wait for this goroutine
	}
	a.self, a.alone = incarnation{}, 0 // who begins again has all its time to find the job
}

// again begins as another member, after an eviction or the end of a voter that cannot go on.
func (a *Agent) again(why string) {
	a.event("again", why)
	a.watch.rejoins++
	if v := a.self.node.State().View; v != nil {
		a.found = addresses(v, a.self.id, a.address)
	}
	a.giveUp(a.self.node.Undecided())
	if len(a.contacts()) == 0 {
		a.fail(nd.Errorf(nd.ErrIO, "the job is lost on this node, and no other agent is known: %s", why))
		return
	}
	a.quit()
	a.config.Form = false
	a.beginAgain()
}

// beginEvery is how soon an agent that could not begin again tries once more: its own name
// is not known for a while, say.
const beginEvery = time.Second

func (a *Agent) beginAgain() {
	a.retry = 0
	a.resolved(func(at endpoint, err error) {
		if a.self.node != nil || a.refused != nil {
			return // a rank was faster
		}
		if err == nil {
			err = a.begin(at)
		}
		if err == nil {
			return
		}
		if a.stuck == nil || a.stuck.Error() != err.Error() {
			a.event("error", "it cannot begin again, and goes on trying: "+err.Error())
		}
		a.stuck, a.retry = err, a.now()+beginEvery
	})
}

// formUnheard forms the job where the contacts were to be asked first, and none of them
// knows of it. An agent that is started again finds the job that it formed that way.
func (a *Agent) formUnheard() {
	if a.self.forms == 0 {
		return
	}
	if a.self.node.Seen().Index > 0 {
		a.self.forms, a.config.Form = 0, false
		return
	}
	if a.now() < a.self.forms {
		return
	}
	a.self.forms = 0
	node, err := a.part(a.self.id, true)
	if err != nil {
		a.event("error", err.Error())
		return
	}
	a.event("form", "none of the contacts has heard of the job: this agent forms it")
	a.self.node = node
	a.progress()
}

// begin makes this agent a member: it forms the job, or asks to be admitted.
func (a *Agent) begin(at endpoint) error {
	var id coord.ID
	for id.Raft() == 0 {
		_, _ = rand.Read(id[:]) // it never fails
	}
	asks := a.config.Form && len(a.config.Contacts) > 0
	node, err := a.part(id, a.config.Form && !asks)
	if err != nil {
		return err
	}
	g, err := startGossip(&a.config, id, at.address, transport{a.port, at}, a.contacts(), &a.drops, a.inbox.put, func(s coord.Stamp) { a.inbox.put(s) })
	if err != nil {
		return err
	}
	a.port.gossips.Store(true)
	g.tell(a.memo)
	a.self, a.stuck = incarnation{id: id, node: node, gossip: g}, nil
	if asks {
		a.self.forms = a.now() + a.config.asking()
	}
	return nil
}

// part is this agent's part in deciding, as a member of this ID: of the one that forms the
// job, or of one that asks to be admitted.
func (a *Agent) part(id coord.ID, forms bool) (*group.Node, error) {
	cfg := a.config.profile()
	cfg.Contacts = a.contacts()
	cfg.Self = coord.Admission{
		Member:  coord.Member{ID: id, Name: a.config.Name, Rack: a.config.Rack, Address: a.address, Ranks: slices.Clone(a.order)},
		Version: coord.Version, Job: a.config.Job,
	}
	if f := a.former; f != nil {
		mode, err := coord.ParseMode(f.Mode)
		if err != nil {
			return nil, err
		}
		cfg.Self.Plan = f.Plan
		cfg.Job = coord.Job{
			Name: a.config.Job, Plan: f.Plan, Mode: mode, N: f.N, Steps: f.Steps, Epochs: f.Epochs, Expect: a.config.Expect,
			Voters: coord.DefaultVoters, Lease: coord.DefaultLease, Ahead: max(1, f.Ahead), Reserve: max(1, f.Ahead),
		}
		if forms {
			cfg.Form = []coord.Member{cfg.Self.Member}
			cfg.Start = coord.Progress{Epoch: f.Epoch, Step: f.Epoch*f.Steps + f.Step}
		}
	}
	return group.New(cfg, a.now())
}

// leaveBound is how long an agent that leaves waits at most until the others decide without it.
const leaveBound = 5 * time.Second

// leave takes part on until the others decide without this agent: of two, one that went at once
// would leave the other without a majority. Its ranks have no agent any more.
func (a *Agent) leave(beat <-chan time.Time) {
	n := a.self.node
	if n == nil {
		return
	}
	bound := time.NewTimer(leaveBound)
	defer bound.Stop()
	n.Leave(a.now())
	for a.carry(); !n.Left(); a.carry() {
		select {
		case <-beat:
			n.Tick(a.now())
		case <-a.inbox.wake:
			list, _ := a.inbox.take()
			for _, x := range list {
				if _, is := x.(call); !is { // who has called was told that the agent has ended
					a.take(x)
				}
			}
		case <-bound.C:
			a.event("leaves", fmt.Sprintf("not agreed within %v: the others may be without a majority", leaveBound))
			return
		}
	}
}

// end ends all that the agent has started.
func (a *Agent) end() {
	a.links.flush(time.Second)
	if a.self.gossip != nil {
		a.self.gossip.close(time.Second)
	}
	a.links.close()
}

func (a *Agent) event(kind, text string) {
	e := Event{time.Now(), kind, text}
	a.watch.remembers(e)
	if f := a.config.Listener.Event; f != nil {
		f(e)
	}
}

// note turns what the node says into a line.
func (a *Agent) note(e group.Event) {
	switch e.Kind {
	case group.Viewed:
		a.watch.installs(a.now(), e.View)
		a.viewed(e.View)
		a.event("view", fmt.Sprintf("view %d: %s, %s", e.View.Number, plural.Of(len(e.View.Members), "node"), plural.Of(e.View.World(), "rank")))
	case group.Decided:
		a.decided(e)
	case group.Applied:
		switch x := e.Effect.(type) {
		case *coord.Installed:
			if x.Reason != "" {
				a.event("change", fmt.Sprintf("view %d: %s%s", x.View.Number, a.watch.names(x.Evicted), x.Reason))
			}
		case *coord.Outcome:
			a.watch.decides(a.now(), x)
		case *coord.Rebalanced:
			if r := e.Entry.(*coord.Rebalance); r.All {
				a.event(Stalled, a.watch.stalled(r, x))
			}
		}
	case group.Dropped:
		a.drops.add(dropMalformed)
		a.event(e.Kind.String(), e.Reason)
	case group.Foreign:
		a.drops.add(dropOtherRun)
		if e.Reason != a.foreign { // its agents may say something all the time
			a.foreign = e.Reason
			a.event(e.Kind.String(), "messages are ignored: "+e.Reason)
		}
	case group.Reconfigured: // a view told of it
	case group.Led:
		a.watch.elections++
		a.event(e.Kind.String(), cmp.Or(e.Reason, "this agent decides what comes next, with a majority of the voters"))
	default:
		a.event(e.Kind.String(), e.Reason)
	}
}

var errNoJob = errors.New("the agent has no part in a job")
