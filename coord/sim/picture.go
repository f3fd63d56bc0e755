package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Picture is the timeline of a run, to be looked at: nodes are rows, views are bands,
// and marks say what went wrong and what was delivered. It is filled by Run and written by
// WriteSVG.
type Picture struct {
	title   string
	nodes   int
	end     time.Duration
	marks   []mark
	spans   []span
	views   []time.Duration // when each was installed
	members []int           // of each
	work    map[cell]int
	// Violation is where the run ended, if it broke an invariant.
	violation *Violation
}

// mark is something at a node and a time.
type mark struct {
	at    time.Duration
	place int
	kind  string
}

// span is something that lasts.
type span struct {
	from, to time.Duration
	place    int
	kind     string
}

// cell is a node in a part of the time.
type cell struct {
	place int
	slot  int
}

// slot is how fine deliveries are drawn.
const slot = 250 * time.Millisecond

func (p *Picture) mark(at time.Duration, place int, kind string) {
	if p != nil {
		p.marks = append(p.marks, mark{at, place, kind})
	}
}

func (p *Picture) span(from, to time.Duration, place int, kind string) {
	if p != nil {
		p.spans = append(p.spans, span{from, to, place, kind})
	}
}

func (p *Picture) installed(at time.Duration, members int) {
	if p != nil {
		p.views = append(p.views, at)
		p.members = append(p.members, members)
	}
}

func (p *Picture) delivered(at time.Duration, place int) {
	if p == nil {
		return
	}
	if p.work == nil {
		p.work = map[cell]int{}
	}
	p.work[cell{place, int(at / slot)}]++
}

// close takes what is known at the end.
func (p *Picture) close(w *World) {
	if p == nil {
		return
	}
	p.title = fmt.Sprintf("seed %d, %v, %v profile: %d nodes, %d views, %v", w.sc.Seed, w.sc.Job.Mode, w.sc.Profile, len(w.hosts), len(p.views), w.now.Round(time.Millisecond))
	p.nodes, p.end = len(w.hosts), w.now
	for _, o := range w.order {
		to := w.now
		if o.dead {
			to = o.died
		}
		p.span(o.began, to, o.place, "alive")
	}
	if len(w.result.Violations) > 0 {
		p.violation = &w.result.Violations[0]
	}
}

// Measures of the drawing, in pixels.
const (
	marginLeft, marginTop = 70, 64
	plotWidth             = 1200
	legendHeight          = 40
)

// svg draws with coordinates of time and node.
type svg struct {
	strings.Builder
	p   *Picture
	row float64
}

func (s *svg) x(t time.Duration) float64 {
	return marginLeft + plotWidth*float64(t)/float64(max(1, s.p.end))
}

func (s *svg) y(place int) float64 { return marginTop + s.row*float64(place) }

// printf draws an element.
func (s *svg) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(&s.Builder, format, args...) // memory takes it
}

func (s *svg) rect(x, y, width, height float64, style string) {
	s.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" %s/>\n", x, y, max(width, 0.5), height, style)
}

func (s *svg) text(x, y float64, style, text string) {
	s.printf("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, escape(text))
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(text string) string { return escaper.Replace(text) }

// WriteSVG draws the timeline.
func (p *Picture) WriteSVG(out io.Writer) error {
	s := &svg{p: p, row: max(3, min(26, 900/float64(max(1, p.nodes))))}
	height := marginTop + s.row*float64(p.nodes) + legendHeight
	s.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n", marginLeft+plotWidth+20, height)
	s.WriteString("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n")
	s.text(marginLeft, 18, `font-size="14" fill="#222"`, p.title)
	s.bands(height)
	s.spans()
	s.deliveries()
	s.marks(height)
	s.axis(height)
	s.WriteString("</svg>\n")
	_, err := io.WriteString(out, s.String())
	return err
}

// bands are the views, in turns of two tints, with number and members above.
func (s *svg) bands(height float64) {
	for i, from := range s.p.views {
		to := s.p.end
		if i+1 < len(s.p.views) {
			to = s.p.views[i+1]
		}
		tint := [2]string{"#eef3fa", "#fdf6e8"}[i%2]
		s.rect(s.x(from), marginTop-6, s.x(to)-s.x(from), height-legendHeight-marginTop+6, `fill="`+tint+`"`)
		if s.x(to)-s.x(from) > 48 {
			s.text(s.x(from)+3, marginTop-26, `fill="#345"`, fmt.Sprintf("view %d", i))
			s.text(s.x(from)+3, marginTop-13, `fill="#789" font-size="9"`, fmt.Sprintf("%d nodes", s.p.members[i]))
		}
	}
}

// colours of what lasts, in the order in which they are drawn.
func colours() [][2]string {
	return [][2]string{{"alive", "#b9c3cf"}, {"stopped", "#8a6fc0"}, {"cut", "#e08a3c"}, {"stalled", "#d9c74a"}, {"slow", "#7fb6c9"}}
}

func (s *svg) spans() {
	for layer, c := range colours() {
		for _, x := range s.p.spans {
			if x.kind != c[0] {
				continue
			}
			top, height := 0.2, 0.6
			if layer > 0 {
				top, height = 0.2, 0.22
			}
			s.rect(s.x(x.from), s.y(x.place)+s.row*top, s.x(min(x.to, s.p.end))-s.x(x.from), s.row*height, `fill="`+c[1]+`"`)
		}
	}
	for place := range s.p.nodes {
		if s.row >= 10 || place%10 == 0 {
			s.text(8, s.y(place)+s.row*0.65, `fill="#444"`, fmt.Sprintf("node %d", place))
		}
	}
}

// deliveries are the darker the more there were.
func (s *svg) deliveries() {
	most := 1
	cells := make([]cell, 0, len(s.p.work))
	for c, n := range s.p.work {
		most = max(most, n)
		cells = append(cells, c)
	}
	slices.SortFunc(cells, func(a, b cell) int { return (a.place-b.place)<<20 + a.slot - b.slot })
	for _, c := range cells {
		dark := 0.25 + 0.75*float64(s.p.work[c])/float64(most)
		from := time.Duration(c.slot) * slot
		s.rect(s.x(from), s.y(c.place)+s.row*0.55, s.x(from+slot)-s.x(from), s.row*0.25, fmt.Sprintf(`fill="#2b7a3d" fill-opacity="%.2f"`, dark))
	}
}

func (s *svg) marks(height float64) {
	for _, m := range s.p.marks {
		x, y, r := s.x(m.at), s.y(m.place)+s.row/2, max(1.5, min(5, s.row*0.3))
		switch m.kind {
		case "view":
			s.printf("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#1d4e9e\" stroke-width=\"1\"/>\n", x, y-s.row*0.42, x, y+s.row*0.42)
		case "leads":
			s.printf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#1d4e9e\"/>\n", x, y-s.row*0.2, r*0.8)
		case "dead":
			s.printf("<path d=\"M%.1f %.1fl%.1f %.1fm0 %.1fl%.1f %.1f\" stroke=\"#c0262d\" stroke-width=\"1.8\"/>\n", x-r, y-r, 2*r, 2*r, -2*r, -2*r, 2*r)
		}
	}
	if v := s.p.violation; v != nil {
		s.printf("<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c0262d\" stroke-width=\"2\"/>\n", s.x(v.Time), marginTop-6, s.x(v.Time), height-legendHeight)
		s.text(marginLeft, 33, `fill="#c0262d"`, v.String())
	}
}

// axis is the time, and what the colours mean.
func (s *svg) axis(height float64) {
	step := time.Second
	for s.p.end/step > 20 {
		step *= 5
	}
	for t := time.Duration(0); t <= s.p.end; t += step {
		s.text(s.x(t), height-legendHeight+14, `fill="#555" text-anchor="middle"`, t.String())
	}
	x := float64(marginLeft)
	legend := append(colours(), [2]string{"delivers", "#2b7a3d"}, [2]string{"enters a view, leads", "#1d4e9e"}, [2]string{"dead", "#c0262d"})
	for _, c := range legend {
		s.rect(x, height-14, 10, 8, `fill="`+c[1]+`"`)
		s.text(x+14, height-6, `fill="#444"`, c[0])
		x += 40 + 6.5*float64(len(c[0]))
	}
}
