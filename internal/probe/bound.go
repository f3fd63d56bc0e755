package probe

// machine is the rates, in GB/s, that the stages of any chain share. 0 is not known.
type machine struct {
	again    float64 // stored bytes read from the page cache by all cores
	convert  float64 // f32 bytes by one core
	cores    float64
	scale    float64 // how many cores all of them are worth to a decoder
	copy     float64
	copyFrom string
	assemble float64
}

// flow is how many stored and decoded bytes stand behind each byte of f32 batches.
type flow struct{ stored, decoded float64 }

// f32Bytes of a crop: complex elements are pairs.
func f32Bytes(c *Crop, elementBytes int, complex bool) float64 {
	per := 4.0
	if complex {
		per = 8
	}
	return float64(c.Bytes) / float64(elementBytes) * per
}

// toGPU lists the stages on the way to a GPU. They run beside each other. Chunks that
// the host decodes cross the bus decoded.
func (m *machine) toGPU(f flow, c *Candidate) []Stage {
	copied, of := f.stored, "stored"
	var list []Stage
	if c.GPUFrom == ByHost {
		copied, of = f.decoded, "decoded"
		list = m.add(list, "page cache", m.again, "stored", f.stored, Here)
	}
	list = m.add(list, "copy", m.copy, of, copied, m.copyFrom)
	list = m.add(list, "decode", c.GPUGBPerS, "decoded", f.decoded, c.GPUFrom)
	return m.add(list, "assemble", m.assemble, "f32", 1, Predicted)
}

// onHost lists the stages without a GPU. They share the cores.
func (m *machine) onHost(f flow, c *Candidate) []Stage {
	list := m.add(nil, "page cache", m.again, "stored", f.stored, Here)
	list = m.add(list, "decode", c.HostGBPerSCore*m.scale, "decoded", f.decoded, Here)
	return m.add(list, "assemble", m.convert*m.cores, "f32", 1, Here)
}

// add appends a stage whose rate is known and that has something to do.
func (m *machine) add(list []Stage, name string, rate float64, of string, perF32 float64, from string) []Stage {
	if rate <= 0 || perF32 <= 0 {
		return list
	}
	return append(list, Stage{name, rate, of, rate / perF32, from})
}

// slowest is the rate of stages beside each other, and the name of the one that binds.
func slowest(list []Stage) (rate float64, bound string) {
	for _, s := range list {
		if bound == "" || s.F32GBPerS < rate {
			rate, bound = s.F32GBPerS, s.Name
		}
	}
	return rate, bound
}

// inTurn is the rate of stages that share what they run on, and the largest part.
func inTurn(list []Stage) (rate float64, bound string) {
	_, bound = slowest(list)
	time := 0.0
	for _, s := range list {
		time += 1 / s.F32GBPerS
	}
	if time > 0 {
		rate = 1 / time
	}
	return rate, bound
}

// judge fills in what a candidate means for batches. Its rates and ratio are known.
func (m *machine) judge(c *Candidate, decodedPerF32 float64) (gpu, host []Stage) {
	f := flow{decoded: decodedPerF32, stored: decodedPerF32 / c.Ratio}
	if c.GPUFrom == ByHost {
		c.GPUGBPerS = c.HostGBPerSCore * m.scale
	}
	gpu, host = m.toGPU(f, c), m.onHost(f, c)
	c.F32GBPerS, c.Bound = slowest(gpu)
	c.HostF32GBPerS, c.HostBound = inTurn(host)
	return gpu, host
}
