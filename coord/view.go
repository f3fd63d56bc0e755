package coord

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"slices"

	"github.com/headrace/headrace/nd"
)

// ID is the uuid that an agent draws when it starts. It is never used again: an agent
// that starts again is a new member (I9).
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Raft is the ID's number in the group that decides; 0 stands for no one there.
func (id ID) Raft() uint64 { return binary.BigEndian.Uint64(id[:8]) }

// compare orders IDs.
func (id ID) compare(o ID) int { return bytes.Compare(id[:], o[:]) }

// ParseID reads what String writes.
func ParseID(text string) (ID, error) {
	var id ID
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(id) {
		return id, nd.Errorf(nd.ErrConfig, "id %q: 32 hex digits are wanted", text)
	}
	return ID(b), nil
}

// Member is an agent and its ranks.
type Member struct {
	ID      ID
	Name    string // of the host, for people
	Rack    string // what fails together; may be empty
	Address string // where its agent listens
	Ranks   []int  // the local ranks that it serves, in order; none: a witness, which only decides
}

// View is who is in the job, from a place in the log on.
type View struct {
	Number  uint64
	Members []Member // those that came first are first
	Voters  []ID     // who should decide, in the order of the members
	// Cut is where the view begins: lockstep, the first step that its ranks share.
	Cut int64

	places map[uint64]int // of members, by their numbers; nil: see Seal
}

// sealFrom is from how many members on a search costs more than a table.
const sealFrom = 32

// Seal makes finding members of a large view fast. It comes before the view is shared.
func (v *View) Seal() {
	if len(v.Members) < sealFrom || v.places != nil {
		return
	}
	v.places = make(map[uint64]int, len(v.Members))
	for i := range v.Members {
		v.places[v.Members[i].ID.Raft()] = i
	}
}

// Rank is the rank of a member's local rank, -1 if it is not in the view.
func (v *View) Rank(id ID, local int) int {
	i := v.Index(id)
	if i < 0 {
		return -1
	}
	k, ok := slices.BinarySearch(v.Members[i].Ranks, local)
	if !ok {
		return -1
	}
	return v.First(i) + k
}

// Owner is whose a rank is.
func (v *View) Owner(rank int) ID {
	id, _ := v.Seat(rank)
	return id
}

// Seat is whose a rank is, and its number there.
func (v *View) Seat(rank int) (id ID, local int) {
	for i := range v.Members {
		m := &v.Members[i]
		if rank < len(m.Ranks) {
			return m.ID, m.Ranks[rank]
		}
		rank -= len(m.Ranks)
	}
	return ID{}, -1
}

const (
	maxVoters  = 7
	maxMembers = 1 << 16
	maxRanks   = MaxRanks
)

// World is the number of ranks.
func (v *View) World() int {
	n := 0
	for i := range v.Members {
		n += len(v.Members[i].Ranks)
	}
	return n
}

// Index is the place of a member, -1 if it is not in the view.
func (v *View) Index(id ID) int {
	if i := v.Numbered(id.Raft()); i >= 0 && v.Members[i].ID == id {
		return i
	}
	return -1
}

// Numbered is the place of the member with a number of the group, -1 if there is none.
func (v *View) Numbered(number uint64) int {
	if v.places != nil {
		if i, ok := v.places[number]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(v.Members, func(m Member) bool { return m.ID.Raft() == number })
}

// First is the rank of a member's first rank. Ranks are numbered through the members.
func (v *View) First(index int) int {
	n := 0
	for i := range v.Members[:index] {
		n += len(v.Members[i].Ranks)
	}
	return n
}

// loses reports whether a rank of v is not in the next view.
func (v *View) loses(next *View) bool {
	for _, m := range v.Members {
		i := next.Index(m.ID)
		for _, local := range m.Ranks {
			if i < 0 || !slices.Contains(next.Members[i].Ranks, local) {
				return true
			}
		}
	}
	return false
}

// chooseVoters picks an odd number of members, at most so many. Those that decide
// already stay, for a change of voters costs; the others come by a hash of their IDs,
// first one of each rack that has the fewest.
func chooseVoters(members []Member, present []ID, most int) []ID {
	if n := len(members); n < most {
		most = max(1, n-1+n%2)
	}
	chosen := make([]bool, len(members))
	racks := map[string]int{} // looked up only: its order does not matter
	left := most
	choose := func(i int) {
		chosen[i] = true
		racks[members[i].Rack]++
		left--
	}
	for i := range members {
		if left > 0 && slices.Contains(present, members[i].ID) {
			choose(i)
		}
	}
	for left > 0 && left <= len(members) {
		best := -1
		for i := range members {
			if !chosen[i] && (best < 0 || before(&members[i], &members[best], racks)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		choose(best)
	}
	var voters []ID
	for i := range members {
		if chosen[i] {
			voters = append(voters, members[i].ID)
		}
	}
	return voters
}

// before reports whether a is to be a voter rather than b.
func before(a, b *Member, racks map[string]int) bool {
	if x, y := racks[a.Rack], racks[b.Rack]; x != y {
		return x < y
	}
	if x, y := spread(a.ID), spread(b.ID); x != y {
		return x < y
	}
	return a.ID.compare(b.ID) < 0
}

func spread(id ID) uint64 {
	h := fnv.New64a()
	h.Write(id[:])
	return h.Sum64()
}
