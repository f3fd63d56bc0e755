package rendezvous

import "fmt"

// spares is how many nodes may stand by beyond Max.
const spares = 64

// maxWorkers is the most workers of a node: the ranks of a job are numbers that all
// nodes can count with.
const maxWorkers = 1 << 20

// join lets a node in, or refuses it by a reason.
func (m *machine) join(in input) {
	m.last++
	s := &seat{id: m.last, join: *in.message.Join, sees: in.sees, local: in.local, heard: m.now, rank: -1}
	why, retry := m.refusal(s)
	m.members = append(m.members, s)
	if why == "" {
		m.send([]memberID{s.id}, &message{Type: typeWelcome, ID: s.id})
		return
	}
	m.send([]memberID{s.id}, &message{Type: typeRefused, Reason: why, Retry: retry})
	m.out = append(m.out, effect{kind: drop, to: []memberID{s.id}})
	m.members = m.members[:len(m.members)-1]
}

// refusal says why a node may not join; retry: the reason may pass.
func (m *machine) refusal(s *seat) (why string, retry bool) {
	j, job := &s.join, &m.rules.job
	switch {
	case m.phase == ended:
		return "the job is over", false
	case j.RunID != job.RunID:
		return fmt.Sprintf("this is job %.80q, not %.80q", job.RunID, j.RunID), false
	case j.Static != job.Static || j.Min != job.Min || j.Max != job.Max:
		return fmt.Sprintf("this is a job of %s, not of %s", job.nodes(), j.nodes()), false
	case j.MaxRestarts != job.MaxRestarts:
		return fmt.Sprintf("this job has %d restarts, not %d", job.MaxRestarts, j.MaxRestarts), false
	case j.Live != job.Live:
		return "one of the two is launched with --live, and the other is not", false
	case j.NodeRank >= job.Max || job.Static && j.NodeRank < 0:
		return fmt.Sprintf("node rank %d in a job of %d nodes", j.NodeRank, job.Max), false
	case j.Node.LocalWorld < 0 || j.Node.LocalWorld > maxWorkers || j.Port < 0 || j.Port > 65535:
		return fmt.Sprintf("%d workers, with port %d held for the master", j.Node.LocalWorld, j.Port), false
	case job.Static && m.number >= 0:
		return "all nodes have joined", false
	case len(m.members) >= job.Max+spares:
		return fmt.Sprintf("%d nodes have joined a job of at most %d", len(m.members), job.Max), false
	}
	for _, other := range m.members {
		if j.NodeRank >= 0 && other.join.NodeRank == j.NodeRank {
			// In an elastic job the other may be this node's former life, whose loss has
			// not been noticed.
			return fmt.Sprintf("node rank %d is taken by %s", j.NodeRank, other.name()), !job.Static
		}
	}
	return "", false
}

// nodes is the size of a job as flags write it.
func (j *joining) nodes() string {
	text := fmt.Sprintf("%d:%d nodes", j.Min, j.Max)
	if j.Min == j.Max {
		text = fmt.Sprintf("%d nodes", j.Max)
	}
	if j.Static {
		return text + " with given ranks"
	}
	return text
}
