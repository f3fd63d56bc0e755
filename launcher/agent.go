package launcher

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

// sockets are in a folder of the launcher's own, which only its user may enter.
type sockets struct {
	dir    string // "" without
	server *agentapi.Server
}

// agentPath is the socket that HEADRACE_AGENT names, "" without one.
func (k *sockets) agentPath() string {
	if k.server == nil {
		return ""
	}
	return filepath.Join(k.dir, "agent")
}

// open makes the folder and the agent's socket. A path of TMPDIR that is too long for
// a socket is avoided.
func (k *sockets) open(runID string, relay func(to int, kind string, doc []byte) error, coordinator agentapi.Coordinator) error {
	const longest = 80 // of 107, with room for names
	base := os.TempDir()
	if len(base) > longest {
		base = "/tmp"
	}
	removeDead(base, time.Now().Add(-time.Minute))
	dir, err := os.MkdirTemp(base, socketsPrefix)
	if err != nil {
		return nd.Errorf(nd.ErrIO, "folder for sockets: %w", err)
	}
	k.dir = dir
	listener, err := agentapi.Listen(filepath.Join(dir, "agent"))
	if err != nil {
		return err
	}
	k.server = agentapi.Serve(listener, agentapi.Options{RunID: runID, Relay: relay, Coordinator: coordinator})
	return nil
}

// socketsPrefix begins the names of the folders.
const socketsPrefix = "headrace-"

// removeDead removes the folders of this user's launchers that were killed: those
// older than a time whose socket nobody listens at.
func removeDead(base string, before time.Time) {
	agents, _ := filepath.Glob(filepath.Join(base, socketsPrefix+"*", "agent"))
	for _, agent := range agents {
		info, err := os.Lstat(agent)
		if err != nil || info.ModTime().After(before) {
			continue
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
			continue
		}
		if agentapi.CheckStale(agent) == nil {
			_ = os.RemoveAll(filepath.Dir(agent))
		}
	}
}

func (k *sockets) close() error {
	if k.server != nil {
		_ = k.server.Close() // the folder goes with all that is in it
	}
	if k.dir == "" {
		return nil
	}
	return os.RemoveAll(k.dir)
}

// begin tells the server of a new round, before its workers are there. In a live job the
// ranks come and go, and the agent compares what they mean.
func (k *sockets) begin(r rendezvous.Round, live bool) {
	if k.server != nil {
		world := r.World()
		if live {
			world = 0
		}
		k.server.Begin(agentapi.Round{Number: r.Number, World: world, Node: r.Rank})
	}
}

// relay sends the agent's documents to other nodes.
func (sh *shell) relay(ctx context.Context) func(int, string, []byte) error {
	return func(to int, kind string, doc []byte) error {
		g := sh.entered()
		if g == nil {
			return nd.Errorf(nd.ErrClosed, "the job has no group yet")
		}
		return g.Relay(ctx, to, kind, doc)
	}
}

// relayed takes a document of another node.
func (sh *shell) relayed(d rendezvous.Document) {
	if d.Kind == rendezvous.LostDocument {
		sh.box.put(event{kind: called, call: func() { sh.live.keeper.misses(string(d.Doc)) }})
		return
	}
	if sh.sockets.server == nil {
		return
	}
	if _, err := sh.sockets.server.Receive(d.Round, d.From, d.Kind, d.Doc); err != nil {
		sh.warn(err.Error())
	}
}
