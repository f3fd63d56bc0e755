package launcher

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// place is one worker's place in its round.
type place struct {
	round     rendezvous.Round
	local     int
	errorFile string
	engine    string // socket of its companion, "" for none
	agent     string // socket of this launcher, "" for none
	view      string // number of the newest view of a live job, "" for none
}

// rank is the worker's rank in the job.
func (p place) rank() int { return p.round.Base(p.round.Rank) + p.local }

// roleRank counts within the workers of one role, in the order of nodes.
func (p place) roleRank() (rank, world int) {
	role := p.round.Nodes[p.round.Rank].Role
	for i, n := range p.round.Nodes {
		if n.Role != role {
			continue
		}
		if i < p.round.Rank {
			rank += n.LocalWorld
		}
		world += n.LocalWorld
	}
	return rank + p.local, world
}

// environment is what a worker sees: the launcher's own, with the variables of its
// place over it. torchrun's contract, byte for byte, save that rank 0 hosts torch's
// store itself.
func (s *Spec) environment(p place) []string {
	e := overlay(s.Env)
	roleRank, roleWorld := p.roleRank()
	local := p.local
	if s.VirtualLocalRank {
		local = 0
		e.set("CUDA_VISIBLE_DEVICES", ownDevice(e, p.local))
	}
	for _, v := range []struct {
		name  string
		value int
	}{
		{"LOCAL_RANK", local},
		{"LOCAL_WORLD_SIZE", s.Workers},
		{"RANK", p.rank()},
		{"WORLD_SIZE", p.round.World()},
		{"GROUP_RANK", p.round.Rank},
		{"GROUP_WORLD_SIZE", len(p.round.Nodes)},
		{"ROLE_RANK", roleRank},
		{"ROLE_WORLD_SIZE", roleWorld},
		{"MASTER_PORT", p.round.MasterPort},
		{"TORCHELASTIC_RESTART_COUNT", p.round.Restarts},
		{"TORCHELASTIC_MAX_RESTARTS", s.MaxRestarts},
		{"NODE_RANK", p.round.Rank},
		// LitData reads these two.
		{"NNODES", len(p.round.Nodes)},
		{"GLOBAL_RANK", p.rank()},
	} {
		e.set(v.name, strconv.Itoa(v.value))
	}
	e.set("ROLE_NAME", s.Role)
	e.set("MASTER_ADDR", p.round.MasterAddr)
	e.set("TORCHELASTIC_RUN_ID", p.round.RunID)
	e.set("TORCHELASTIC_USE_AGENT_STORE", "False")
	e.set("TORCHELASTIC_SIGNALS_TO_HANDLE", s.SignalText)
	e.set("TORCHELASTIC_ERROR_FILE", p.errorFile)
	e.fill("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
	if s.Workers > 1 {
		e.fill("OMP_NUM_THREADS", "1")
	}
	if p.engine != "" {
		e.set("HEADRACE_ENGINE", p.engine)
	}
	if p.agent != "" {
		e.set("HEADRACE_AGENT", p.agent)
	}
	if p.view != "" {
		e.set("HEADRACE_VIEW", p.view)
	}
	return e.list
}

// ownDevice is the local rank's entry of the parent's list, or its index where
// the parent has none.
func ownDevice(e *variables, local int) string {
	if list, ok := e.get("CUDA_VISIBLE_DEVICES"); ok {
		if entries := strings.Split(list, ","); local < len(entries) {
			return strings.TrimSpace(entries[local])
		}
	}
	return strconv.Itoa(local)
}

// variables is an environment that can be changed.
type variables struct {
	list []string
	at   map[string]int
}

// overlay copies an environment. Of a name that is there twice the first wins, as
// with getenv.
func overlay(env []string) *variables {
	e := &variables{at: make(map[string]int, len(env)+24), list: make([]string, 0, len(env)+24)}
	for _, kv := range env {
		name, _, variable := strings.Cut(kv, "=")
		if !variable { // what execve let through is passed on
			e.list = append(e.list, kv)
		} else if _, there := e.at[name]; !there {
			e.at[name] = len(e.list)
			e.list = append(e.list, kv)
		}
	}
	return e
}

func (e *variables) get(name string) (string, bool) {
	i, ok := e.at[name]
	if !ok {
		return "", false
	}
	return e.list[i][len(name)+1:], true
}

func (e *variables) set(name, value string) {
	if i, ok := e.at[name]; ok {
		e.list[i] = name + "=" + value
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, name+"="+value)
}

// fill sets what is not there.
func (e *variables) fill(name, value string) {
	if _, ok := e.at[name]; !ok {
		e.set(name, value)
	}
}

// lookup finds a variable in the workers' environment.
func (s *Spec) lookup(name string) (string, bool) {
	i := slices.IndexFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	if i < 0 {
		return "", false
	}
	return s.Env[i][len(name)+1:], true
}
