package zarr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// describe prints everything that an Array says, a line for each part.
func describe(a *Array) string {
	var b strings.Builder
	fmt.Fprintf(&b, "v%d shape %v %s\n", a.Format, a.Shape, describeDType(a.DType))
	fmt.Fprintf(&b, "keys %v", a.Keys)
	fmt.Fprintf(&b, "\nfill %x\n", a.Fill)
	for i := range a.Levels {
		describeLevel(&b, a, i)
	}
	if a.DimensionNames != nil {
		fmt.Fprintf(&b, "names %q\n", a.DimensionNames)
	}
	if a.Attributes != nil {
		fmt.Fprintf(&b, "attributes %s\n", a.Attributes)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func describeDType(d DType) string {
	text := fmt.Sprintf("%s %q", d.DType, d.Name)
	if d.Time != 0 {
		text += fmt.Sprintf(" time %c %s", d.Time, d.Unit)
	}
	if d.Big {
		text += " big"
	}
	return text
}

func describeLevel(b *strings.Builder, a *Array, i int) {
	l := a.Levels[i]
	fmt.Fprintf(b, "level %d: chunk %v grid %v order %v", i, l.Chunk, a.GridShape(i), l.Order)
	if l.Big {
		b.WriteString(" big")
	}
	b.WriteString("\n")
	for _, c := range l.Filters {
		fmt.Fprintf(b, "  filter %s %s\n", c.Name, c.Config)
	}
	for _, c := range l.Bytes {
		fmt.Fprintf(b, "  bytes %s %s\n", c.Name, c.Config)
	}
	if ix := l.Index; ix != nil {
		fmt.Fprintf(b, "  index %v of %d bytes", ix.Counts, ix.Size())
		for _, flag := range []struct {
			on   bool
			text string
		}{{ix.AtStart, " at the start"}, {ix.Big, " big"}, {ix.Checksum, " crc32c"}, {ix.Order != nil, fmt.Sprintf(" order %v", ix.Order)}} {
			if flag.on {
				b.WriteString(flag.text)
			}
		}
		b.WriteString("\n")
	}
}

func describeGroup(g *Group) string {
	text := fmt.Sprintf("v%d group\n", g.Format)
	if g.Attributes != nil {
		text += fmt.Sprintf("attributes %s\n", g.Attributes)
	}
	if g.Consolidated != nil {
		text += "consolidated\n" + describeDocs(g.Consolidated)
	}
	return text
}

func describeDocs(docs map[string]json.RawMessage) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(docs)) {
		fmt.Fprintf(&b, "  %s: %s\n", path, docs[path])
	}
	return b.String()
}

func describeMultiscales(all []Multiscale) string {
	if all == nil {
		return "none\n"
	}
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%q version %q axes %+v\n", m.Name, m.Version, m.Axes)
		for _, l := range m.Levels {
			fmt.Fprintf(&b, "  %q scale %v translation %v\n", l.Path, l.Scale, l.Translation)
		}
	}
	return b.String()
}
