package sampler

import (
	"sort"

	"github.com/headrace/headrace/nd"
)

// shardGrid is the crops of a grid shard by shard: a crop belongs to the shard of
// the first field in which it begins. Shards come in C order, group by group, and
// the crops of a shard in C order; shards without a crop are left out.
type shardGrid struct {
	blocks *Blocks
	groups []shardGroup
}

// shardGroup is a group's crops on each axis, cut where another shard begins: part
// k of an axis is the crops cuts[k] … cuts[k+1]-1 of it.
type shardGroup struct {
	first int64 // block
	cuts  [][]int64
}

func (g *shardGroup) parts(axis int) int64 { return int64(len(g.cuts[axis]) - 1) }

// newShardGrid cuts the crops of a grid that has counted them.
func newShardGrid(g *Grid) (*shardGrid, error) {
	s := &shardGrid{}
	var sizes []int64
	for group, counts := range g.counts {
		shard, err := g.shardShape(group)
		if err != nil {
			return nil, err
		}
		if g.mostShards(group, shard) > MaxBlocks-int64(len(sizes)) {
			a := &g.windows.fields[0].Arrays[group]
			return nil, nd.Errorf(nd.ErrBudget, "grid crops: array %s %v: more than %d shards %v up to here; take the grid without ByShard", a.Name, a.Shape, MaxBlocks, a.Shard)
		}
		cut := shardGroup{first: int64(len(sizes))}
		blocks := int64(1)
		for axis, count := range counts {
			cut.cuts = append(cut.cuts, g.cuts(group, axis, count, shard[axis]))
			blocks *= cut.parts(axis)
		}
		for block := range blocks {
			sizes = append(sizes, cut.size(block))
		}
		s.groups = append(s.groups, cut)
	}
	var err error
	s.blocks, err = NewBlocks(sizes)
	return s, err
}

// shardShape is the shard of the first field's array on the aligned axes. An axis
// that the field does not have is not cut: its extent is 0 then.
func (g *Grid) shardShape(group int) ([]int64, error) {
	a := &g.windows.fields[0].Arrays[group]
	if len(a.Shard) != len(a.Shape) {
		return nil, nd.Errorf(nd.ErrConfig, "grid crops: ByShard: array %s %v: Shard is %v, an extent per axis is wanted", a.Name, a.Shape, a.Shard)
	}
	shape := make([]int64, len(g.windows.shape))
	lead := len(shape) - len(a.Shard)
	for i, n := range a.Shard {
		if n < 1 {
			return nil, nd.Errorf(nd.ErrConfig, "grid crops: ByShard: array %s: Shard %v has an extent below 1", a.Name, a.Shard)
		}
		shape[lead+i] = n
	}
	return shape, nil
}

// mostShards is the most shards in which crops of a group can begin, before any
// memory is taken for them; MaxBlocks+1 stands for more.
func (g *Grid) mostShards(group int, shard []int64) int64 {
	most := int64(1)
	for axis, count := range g.counts[group] {
		n := min(count, 1)
		if shard[axis] > 0 && count > 0 {
			n = min(count, g.shardOf(group, axis, count-1, shard[axis])-g.shardOf(group, axis, 0, shard[axis])+1)
		}
		if n > 0 && most > MaxBlocks/n {
			most = MaxBlocks + 1
			continue
		}
		most *= n
	}
	return most
}

// cuts is where the crops of an axis go on into another shard, from 0 to count.
func (g *Grid) cuts(group, axis int, count, shard int64) []int64 {
	cuts := []int64{0}
	for at := int64(0); at < count; {
		next := count
		if shard > 0 {
			in := g.shardOf(group, axis, at, shard)
			next = at + int64(sort.Search(int(count-at), func(k int) bool { return g.shardOf(group, axis, at+int64(k), shard) > in }))
		}
		cuts = append(cuts, next)
		at = next
	}
	return cuts
}

// shardOf is the shard along an axis in which the first field's crop k begins.
func (g *Grid) shardOf(group, axis int, k, shard int64) int64 {
	f := &g.windows.fields[0]
	lead := len(g.windows.shape) - len(f.Crop)
	return (g.start(group, axis, k) + (g.windows.shape[axis]-f.Crop[axis-lead])/2) / shard
}

// axes gives the part of each axis that a block of the group is made of.
func (g *shardGroup) axes(block int64) []int64 {
	parts := make([]int64, len(g.cuts))
	for axis := len(parts) - 1; axis >= 0; axis-- {
		n := g.parts(axis)
		parts[axis] = block % n
		block /= n
	}
	return parts
}

func (g *shardGroup) size(block int64) int64 {
	size := int64(1)
	for axis, part := range g.axes(block) {
		size *= g.cuts[axis][part+1] - g.cuts[axis][part]
	}
	return size
}

// crop is the group and the crop's index on each axis of sample i.
func (s *shardGrid) crop(i int64) (group int, index []int64) {
	block := s.blocks.Of(i)
	rest := i - s.blocks.Span(block).Start
	group = sort.Search(len(s.groups)-1, func(k int) bool { return s.groups[k+1].first > block })
	g := &s.groups[group]
	index = g.axes(block - g.first)
	for axis := len(index) - 1; axis >= 0; axis-- {
		part := g.cuts[axis][index[axis] : index[axis]+2]
		n := part[1] - part[0]
		index[axis] = part[0] + rest%n
		rest /= n
	}
	return group, index
}
