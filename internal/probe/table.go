package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// onGPU fills in what a GPU does with the chunks as they are stored, and the rates of
// the machine that belong to it.
func (p *probe) onGPU(ctx context.Context, r *Result, m *machine, s *sample, structure *Structure) error {
	rates := &p.model.rates
	m.copy, m.copyFrom, m.assemble = rates.Copy.GBPerS, Predicted, rates.Assemble.GBPerS
	g := &r.GPU
	g.Waves = []Wave{}
	p.until = time.Now().Add(p.options.GPUTime)
	g.From, g.Sources = Predicted, []Source{rates.Sources[rates.Copy.Source], rates.Sources[rates.Assemble.Source]}
	g.Name = rates.Sources[rates.Copy.Source].GPU
	if p.gpu != nil {
		g.Name = p.gpu.device.Info().Name
		rate, err := p.gpu.copyRate(ctx)
		if err != nil {
			return err
		}
		m.copy, m.copyFrom = rate, Here
	}
	g.CopyGBPerS, g.CopyFrom, g.AssembleGBPerS = m.copy, m.copyFrom, m.assemble
	c := p.coding()
	switch {
	case len(s.chunks) == 0:
	case c.method == None && c.device:
	case !p.onDevice(c, p.gpu.decodes(c)):
		g.From = ByHost
	case p.gpu.decodes(c):
		return p.measureWaves(ctx, g, c, s)
	case p.model.Knows(c.method.Kernel()):
		g.Sources = append(g.Sources, p.model.SourcesOf(c.method.Kernel())...)
		p.predictWaves(g, c.method.Kernel(), structure.Features())
	}
	return nil
}

// onDevice reports whether a GPU decodes chunks of this coding, at a rate that is known
// or is measured.
func (p *probe) onDevice(c coding, measured bool) bool {
	return c.device && (c.method == None || c.method == Shuffle || p.model.Knows(c.method.Kernel()) || measured)
}

// affords reports whether there is time for a call of n chunks, twice, if it takes as long as that one.
func (p *probe) affords(w *Wave, n int) bool {
	return time.Duration(float64(2*w.each)*float64(n)/float64(w.Chunks)) < time.Until(p.until)
}

// waveMost bounds the decoded bytes of such a call.
const waveMost = 2 << 30

func (p *probe) predictWaves(g *GPU, kernel string, f Features) {
	size := int64(p.recipe.size)
	for i, n := range p.options.calls {
		if i > 0 && int64(n)*size > waveMost {
			break
		}
		rate := p.model.Predict(kernel, f, size, float64(n))
		g.Waves = append(g.Waves, Wave{Chunks: n, MS: float64(n) * float64(size) / rate / 1e6, GBPerS: rate, From: Predicted})
	}
	g.GBPerS = p.model.Predict(kernel, f, size, inFlight(size))
}

func (p *probe) measureWaves(ctx context.Context, g *GPU, c coding, s *sample) error {
	g.From = Here
	for i, n := range p.options.calls {
		if i > 0 && !p.affords(&g.Waves[i-1], n) {
			p.note("calls of %d chunks and more are not measured: they take longer than %v on this GPU", n, p.options.GPUTime)
			break
		}
		p.say(fmt.Sprintf("decode %d chunks on the GPU", n), 0, 0)
		w, err := p.gpu.wave(ctx, c, s.chunks, p.recipe.size, n, p.until)
		if errors.Is(err, nd.ErrUnsupported) {
			// Odd frames: the engine has them decoded by the host.
			p.note("%v", err)
			g.From, g.GBPerS, g.Waves = ByHost, 0, []Wave{}
			return nil
		}
		if err != nil {
			return err
		}
		if w == nil { // no room for so many
			break
		}
		g.Waves = append(g.Waves, *w)
		g.GBPerS = max(g.GBPerS, w.GBPerS)
	}
	return nil
}

// table tries the candidates, ranks them and says what to do.
func (p *probe) table(ctx context.Context, r *Result, m *machine, t *trial, structure *Structure) error {
	to := target(p.options.Device == "cpu")
	r.Target, r.Table, r.Stages = to.String(), []Candidate{}, []Stage{}
	if len(t.plain) == 0 {
		r.Advice = to.advise(nil)
		return nil
	}
	perF32 := r.Crop.Decoded * float64(r.Crop.Bytes) / f32Bytes(&r.Crop, p.array.DType.Size(), p.array.DType.Complex())
	now, err := p.asStored(ctx, r, t, structure)
	if err != nil {
		return err
	}
	gpu, host := m.judge(&now, perF32)
	if r.Stages = gpu; to == onHost {
		r.Stages = host
	}
	r.F32GBPerS, r.Bound = to.rate(&now), to.bound(&now)
	r.Table = append(r.Table, now)
	for _, name := range p.candidates(t.elementBytes) {
		c, err := p.candidate(ctx, t, name, now.Ratio)
		if err != nil {
			return err
		}
		m.judge(&c, perF32)
		r.Table = append(r.Table, c)
	}
	to.rank(r.Table)
	r.Advice = to.advise(r.Table)
	p.remarks(r, structure)
	return nil
}

func (p *probe) candidates(elementBytes int) []string {
	switch {
	case p.options.OnlyStored:
		return nil
	case len(p.options.Codecs) > 0:
		return p.options.Codecs
	}
	list := DefaultCodecs(elementBytes)
	if len(p.recipe.bytes) == 0 {
		list = list[1:] // it is stored so
	}
	return list
}

// asStored is the row of the array as it is.
func (p *probe) asStored(ctx context.Context, r *Result, t *trial, structure *Structure) (Candidate, error) {
	c := Candidate{Codec: "as stored", AsStored: true, Size: 1, GPUGBPerS: r.GPU.GBPerS, GPUFrom: r.GPU.From}
	plain, stored := 0, 0
	for i := range t.stored {
		plain, stored = plain+t.sizes[i], stored+len(t.stored[i])
	}
	c.Ratio = float64(plain) / float64(max(1, stored))
	if len(p.recipe.bytes) > 0 && structure.Plain < structure.Decoded {
		// The codecs on bytes alone, as for the candidates.
		chain, err := codec.NewChain(codecs(p.recipe.bytes), -1)
		if err != nil {
			return c, err
		}
		if c.HostGBPerSCore, err = p.one(ctx, decoding{chain, t.stored, t.sizes}, p.options.Time/2); err != nil {
			return c, err
		}
	}
	err := p.filters(ctx, t)
	t.withRest(&c)
	return c, err
}

// filters measures what comes after the codecs on bytes, where there is something. Of
// chunks that are tried in part alone it counts nothing.
func (p *probe) filters(ctx context.Context, t *trial) error {
	if len(p.recipe.rest) == 0 {
		return nil
	}
	d := decoding{}
	plain := 0
	for i, n := range t.sizes {
		plain += n
		if len(t.plain[i]) == n {
			d.chunks, d.sizes = append(d.chunks, t.plain[i]), append(d.sizes, p.recipe.size)
		}
	}
	t.expansion = float64(len(t.sizes)) * float64(p.recipe.size) / float64(max(1, plain))
	if len(d.chunks) == 0 {
		return nil
	}
	var err error
	if d.chain, err = codec.NewChain(p.recipe.rest, p.recipe.size); err != nil {
		return err
	}
	rate, err := p.one(ctx, d, p.options.Time/2)
	if rate > 0 {
		t.restCost = 1 / rate
	}
	return err
}

// withRest turns a ratio and a rate of the codecs on bytes into those of whole chunks,
// filters included.
func (t *trial) withRest(c *Candidate) {
	if t.expansion == 0 {
		return
	}
	c.Ratio *= t.expansion
	cost := t.restCost
	if c.HostGBPerSCore > 0 {
		cost += 1 / (c.HostGBPerSCore * t.expansion)
	}
	if cost > 0 {
		c.HostGBPerSCore = 1 / cost
	}
}

// candidate is the row of another codec.
func (p *probe) candidate(ctx context.Context, t *trial, name string, ratio float64) (Candidate, error) {
	stages, err := parseCodec(name, t.elementBytes)
	if err != nil {
		return Candidate{}, err
	}
	if len(p.recipe.bytes) > 0 && p.recipe.bytes[0].Name() == "crc32c" {
		stages = append([]stage{p.recipe.bytes[0]}, stages...)
		name += "+crc32c"
	}
	c, structure, encoded, err := p.try(ctx, t, name, stages)
	if err != nil {
		return c, err
	}
	t.withRest(&c)
	c.Size = ratio / c.Ratio
	k := codingOf(stages)
	k.device = k.device && len(p.recipe.rest) == 0
	c.GPUFrom = Predicted
	measured := p.gpu.decodes(k) && time.Now().Before(p.until)
	switch {
	case k.method == None && k.device:
	case !p.onDevice(k, measured):
		c.GPUFrom = ByHost
	case measured:
		c.GPUFrom = Here
		c.GPUGBPerS, err = p.measureTrial(ctx, k, encoded, t)
		if errors.Is(err, nd.ErrUnsupported) {
			p.note("%s: %v", name, err)
			c.GPUFrom, c.GPUGBPerS, err = ByHost, 0, nil
		}
		if err != nil {
			return c, err
		}
	case p.model.Knows(k.method.Kernel()):
		size := int64(p.recipe.size)
		c.GPUGBPerS = p.model.Predict(k.method.Kernel(), structure.Features(), size, inFlight(size))
	}
	return c, nil
}

// measureTrial decodes what a candidate wrote on the GPU, in the largest call that fits into its memory and the
// time: that is known from the smallest one.
func (p *probe) measureTrial(ctx context.Context, k coding, encoded [][]byte, t *trial) (rate float64, err error) {
	calls, size := p.options.calls, len(t.plain[0])
	first, err := p.gpu.wave(ctx, k, encoded, size, calls[0], p.until)
	if err != nil || first == nil {
		return 0, err
	}
	for _, n := range slices.Backward(calls[1:]) {
		if !p.affords(first, n) {
			continue
		}
		if w, err := p.gpu.wave(ctx, k, encoded, size, n, p.until); err != nil || w != nil {
			return w.rate(), err
		}
	}
	return first.rate(), nil
}

func (w *Wave) rate() float64 {
	if w == nil {
		return 0
	}
	return w.GBPerS
}

// remarks are what else is worth knowing.
func (p *probe) remarks(r *Result, structure *Structure) {
	if n := inFlight(r.ChunkBytes); n < 512 && r.GPU.From != ByHost {
		p.note("chunks of %s: a GPU has %.0f of them in flight, and decodes thousands at a time best: chunks of 256 KiB to 1 MiB fill it", size(r.ChunkBytes), n)
	}
	if r.Crop.Decoded > 4 {
		p.note("a crop of %s decodes %.1f times its bytes: smaller chunks, larger crops, or reuse (crops near each other) cost less", dims(r.Crop.Shape), r.Crop.Decoded)
	}
	if c := p.coding(); c.device && p.gpu == nil && r.GPU.From == ByHost {
		p.note("a GPU decodes %s; at which rate was not measured, so the host's counts", c.method)
	}
	if len(p.recipe.rest) > 0 {
		p.note("filters come after the codecs on bytes: the host decodes such chunks, and the candidates keep the filters")
	}
	if p.gpu != nil && !time.Now().Before(p.until) {
		p.note("the GPU was measured for %v: what came after is predicted, or counts with the host's rate", p.options.GPUTime)
	}
	if structure.Chunks > 0 && structure.Checksums > 0 {
		p.note("frames have checksums: they are verified, on the GPU too")
	}
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/1024)
}

func dims(shape []int64) string {
	if len(shape) == 0 {
		return "one element"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", "x"), "[]")
}
