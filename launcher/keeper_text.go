package launcher

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/headrace/headrace/coord"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/plural"
)

// tellView tells of a new view in one line: who is in the job, and what has changed.
func (k *keeper) tellView(s *agent.Sight) {
	v := s.State.View
	if v == nil || k.view != nil && k.view.Number >= v.Number {
		return
	}
	before := k.view
	k.view = v
	if k.decided || s.State.Over {
		return // they all go
	}
	nodes, idle := 0, 0
	for i := range v.Members {
		if len(v.Members[i].Ranks) > 0 {
			nodes++
		} else {
			idle++
		}
	}
	text := fmt.Sprintf("view %d: %s on %s", v.Number, plural.Of(v.World(), "rank"), plural.Of(nodes, "node"))
	if idle > 0 {
		text += fmt.Sprintf(", %d without ranks", idle)
	}
	k.line(text + k.changes(before, v, s))
}

// changes tells of what is another between two views.
func (k *keeper) changes(before, v *coord.View, s *agent.Sight) string {
	if before == nil {
		return ""
	}
	var left, came, fewer, more []string
	for i := range before.Members {
		m := &before.Members[i]
		at := v.Index(m.ID)
		if at < 0 {
			left = append(left, name(m, before)+" ("+why(s.Peers[m.ID])+")")
			continue
		}
		switch n := len(v.Members[at].Ranks) - len(m.Ranks); {
		case n < 0:
			fewer = append(fewer, plural.Of(-n, "rank")+" of "+name(m, v))
		case n > 0:
			more = append(more, plural.Of(n, "rank")+" of "+name(m, v))
		}
	}
	for i := range v.Members {
		if m := &v.Members[i]; before.Index(m.ID) < 0 {
			came = append(came, name(m, v))
		}
	}
	var b strings.Builder
	for _, part := range []struct {
		what string
		list []string
	}{{"left", left}, {"gone", fewer}, {"came", came}, {"new", more}} {
		if len(part.list) > 0 {
			b.WriteString(", " + part.what + ": " + few(part.list))
		}
	}
	return b.String()
}

// why says why a node is in the view no more.
func why(p agent.Peer) string {
	switch parseNote(p.Note).Condition {
	case finished:
		return "its workers have ended"
	case spent:
		return "its workers have failed"
	case leaving, halting:
		return "it was told to end"
	}
	if p.Left {
		return "it left"
	}
	return "its launcher was lost"
}

// addresses are those by which a node may come to the job: this node's, which is there, and some
// of the others'.
func (k *keeper) addresses() string {
	if k.view == nil {
		return ""
	}
	var list []string
	for i := range k.view.Members {
		if m := &k.view.Members[i]; m.ID == k.self {
			list = append([]string{m.Address}, list...)
		} else {
			list = append(list, m.Address)
		}
	}
	return strings.Join(list[:min(len(list), mostContacts)], ",")
}

// name is a member's host, with the address of its agent where others have the same one.
func name(m *coord.Member, v *coord.View) string {
	for i := range v.Members {
		if o := &v.Members[i]; o.Name == m.Name && o.ID != m.ID {
			return m.Name + " (" + m.Address + ")"
		}
	}
	return m.Name
}

// few joins the first of many names.
func few(names []string) string {
	const shown = 8
	if len(names) > shown {
		return fmt.Sprintf("%s, … (%d in all)", strings.Join(names[:shown], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// tellDeaf tells once that nothing is decided any more, and once that it is again.
func (k *keeper) tellDeaf(s *agent.Sight) {
	deaf := s.ID != coord.ID{} && s.Deaf
	if deaf == k.deaf {
		return
	}
	k.deaf, k.since = deaf, k.now
	switch {
	case k.decided || k.own != working:
	case deaf && k.view != nil: // at the begin it is no news
		k.told = true
		k.line(fmt.Sprintf("%s; this node stops in %v if that lasts", s.Waiting, k.patience))
	case !deaf && k.told:
		k.told = false
		k.line("the agents decide again")
	}
}

// tellVoters tells how much the job outlives.
func (k *keeper) tellVoters(s *agent.Sight) {
	if s.Voters == 0 || s.Voters == k.voters || k.decided || k.own != working || s.State.Over {
		return
	}
	switch before := k.voters; {
	case s.Voters > 1:
		k.line(fmt.Sprintf("%d agents decide: the job outlives the loss of any %d", s.Voters, (s.Voters-1)/2))
	case before > 1:
		k.line("1 agent decides, this one: the job does not outlive its loss")
	}
	k.voters = s.Voters
}

// tellOutside tells, of a node whose workers have failed and that never was in the job, that this
// may be why.
func (k *keeper) tellOutside(s *agent.Sight) {
	if k.own != spent || !k.late || s.State.View != nil {
		return
	}
	k.line("this node was never in the job: " + cmp.Or(s.Waiting, "no rank of it has joined"))
}

// tellStay tells, once, why this node does not end.
func (k *keeper) tellStay() {
	if k.stays || k.now-k.at < settle {
		return
	}
	switch k.own {
	case finished:
		text := "the workers of this node have ended: it waits for the others"
		if k.exit < endless {
			text += fmt.Sprintf(", at most %v", k.exit)
		}
		k.line(text)
	case spent:
		k.line("no worker of this node is left: it stays as a witness until the job is over")
	default:
		return
	}
	k.stays = true
}

// stopsDeaf is the reason of the stop.
func (k *keeper) stopsDeaf(s *agent.Sight) string {
	text := fmt.Sprintf("stopped safely after %v: %s", k.patience, s.Waiting)
	if s.State.View != nil && len(s.State.View.Voters) < 3 {
		text += "; from three agents on (headrace agent --witness is one) a job outlives the loss of any"
	}
	return text
}
