package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/metrics/page"
	"github.com/headrace/headrace/nd"
)

// process is a child, which ended says the end of.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // one that has ended does not mind

// node is a host of a round: its agent and its ranks, which are started again when they
// end before the job.
type node struct {
	r     *round
	place int
	url   string // of the agent's page

	mu     sync.Mutex
	up     chan struct{} // closed when the agent is there
	agent  *process
	births int // of agents
	ranks  []*process
	events []told
}

// told is a line of an agent.
type told struct {
	Time  time.Time
	Event string
	Text  string
}

func (n *node) file(format string, args ...any) string {
	return filepath.Join(n.r.dir, fmt.Sprintf("n%d", n.place)+fmt.Sprintf(format, args...))
}

func (n *node) socket() string { return n.file(".sock") }

// args are those of the agent. The first node forms the job, and when it starts again it
// asks the others first; in half of the rounds it does so from the begin.
func (n *node) args() []string {
	a := []string{
		"agent", "--json", "--job", "elastic", "--profile", n.r.profile, "--name", fmt.Sprint("n", n.place), "--listen", n.r.lan.listens[n.place], "--advertise", n.r.lan.reached[n.place],
		"--socket", n.socket(), "--key-file", filepath.Join(n.r.dir, "key"), "--metrics-port", "0", "--expect", strconv.Itoa(n.r.world()),
	}
	if n.place == 0 {
		a = append(a, "--form")
	}
	if n.place > 0 || n.births > 1 || n.r.seed%2 == 0 {
		for i := range n.r.nodes {
			if i != n.place {
				a = append(a, "--contact", n.r.lan.reached[i])
			}
		}
	}
	return a
}

// startAgent starts the agent, and returns when it says that it is ready.
func (n *node) startAgent() error {
	n.mu.Lock()
	n.births++
	birth := n.births
	n.mu.Unlock()
	log, err := os.Create(n.file("agent%d.log", birth))
	if err != nil {
		return err
	}
	cmd := n.r.command(n.args()...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = n.r.lan.stages[n.place].start(cmd)
	}
	if err != nil {
		return err
	}
	p := &process{cmd, make(chan struct{})}
	ready := make(chan serving, 1)
	go func() {
		n.listen(io.TeeReader(out, log), ready)
		_ = cmd.Wait()
		_ = log.Close()
		close(p.ended)
	}()
	n.mu.Lock()
	n.agent = p
	n.mu.Unlock()
	select {
	case s := <-ready:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.url = s.Metrics
		close(n.up)
		return nil
	case <-p.ended:
		return nd.Errorf(nd.ErrIO, "the agent of node %d ended: %v", n.place, cmd.ProcessState)
	case <-n.r.ctx.Done():
		return n.r.ctx.Err()
	}
}

// listen takes what an agent says until its end.
func (n *node) listen(r io.Reader, ready chan<- serving) {
	lines := bufio.NewScanner(r)
	if lines.Scan() {
		var s serving
		if json.Unmarshal(lines.Bytes(), &s) == nil && s.Metrics != "" {
			ready <- s
		}
	}
	for lines.Scan() {
		var e told
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			n.mu.Lock()
			n.events = append(n.events, e)
			n.mu.Unlock()
		}
	}
	_, _ = io.Copy(io.Discard, r)
}

// endAgent ends the agent by a signal, and waits for its end.
func (n *node) endAgent(s syscall.Signal) {
	n.mu.Lock()
	p := n.agent
	n.up = make(chan struct{})
	n.mu.Unlock()
	p.signal(s)
	select {
	case <-p.ended:
	case <-n.r.ctx.Done():
	}
}

// there waits until the agent is up.
func (n *node) there() bool {
	n.mu.Lock()
	up := n.up
	n.mu.Unlock()
	select {
	case <-up:
	case <-n.r.ctx.Done():
	}
	return n.r.ctx.Err() == nil
}

// isUp reports whether the agent was started and not ended.
func (n *node) isUp() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.up:
		return true
	default:
		return false
	}
}

// mostBirths bounds how often a rank is started.
const mostBirths = 60

// keep runs a rank, again and again until it says that the job is over.
func (n *node) keep(local int) error {
	for birth := range mostBirths {
		if !n.there() {
			return n.r.ctx.Err()
		}
		log, err := os.Create(n.file("rank%d.%d.log", local, birth))
		if err != nil {
			return err
		}
		w := walk{N: n.r.n, Epochs: n.r.epochs, Pace: n.r.pace, Local: local, Socket: n.socket(), Journal: n.file("rank%d.%d.journal", local, birth)}
		if n.place == 0 && local == 0 {
			w.Lie = n.r.lie
		}
		cmd := n.r.command()
		cmd.Env = append(os.Environ(), asRank+"="+w.String())
		cmd.Stdout, cmd.Stderr = log, log
		p := &process{cmd, make(chan struct{})}
		n.mu.Lock() // so that killAll, after the end of the context, kills it
		if err = n.r.ctx.Err(); err == nil {
			err = n.r.lan.stages[n.place].start(cmd)
		}
		if err == nil {
			n.ranks[local] = p
		}
		n.mu.Unlock()
		if err != nil {
			return err
		}
		err = cmd.Wait()
		close(p.ended)
		_ = log.Close()
		if err == nil {
			return nil
		}
	}
	return nd.Errorf(nd.ErrIO, "rank %d of node %d was started %d times", local, n.place, mostBirths)
}

func (n *node) rank(local int) *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ranks[local]
}

// view is what the agent shows; false: it does not answer.
func (n *node) view() (s page.Snapshot, ok bool) {
	n.mu.Lock()
	url := n.url
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.r.ctx, 2*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return n.r.lan.stages[n.place].dial(url)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url+"/debug/view", nil)
	if err != nil {
		return s, false
	}
	answer, err := client.Do(r)
	if err != nil {
		return s, false
	}
	defer answer.Body.Close() //nolint:errcheck // all of it was read, or it is of no use
	return s, json.NewDecoder(answer.Body).Decode(&s) == nil
}
