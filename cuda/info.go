package cuda

import (
	"fmt"
	"strconv"
	"strings"
)

// Info describes a device.
type Info struct {
	Ordinal int
	Name    string
	UUID    string // "GPU-..." or "MIG-...", as nvidia-smi -L prints it
	MIG     bool   // an instance of a divided GPU
	BusID   string // PCI address, "0000:17:00.0"
	Major   int    // compute capability
	Minor   int
	SMs     int
	Memory  int64 // bytes, the driver's own share included
	// NUMANode is the host memory node next to the device, -1 if not known.
	NUMANode int
	// ReadOnlyRegister: Register takes mappings that the process may only read.
	ReadOnlyRegister bool
	// HostPointers: kernels reach registered memory at its host address.
	HostPointers bool
	// BatchCopy: a CopyBatch is one call of the driver for 512 pieces.
	BatchCopy bool
	// SharedMemory is the most dynamic shared memory that a block may ask for.
	SharedMemory int
	CopyEngines  int
	Driver       int // version of the driver, see Driver.Version
}

// Describe tells about a device without making a context on it.
func (d *Driver) Describe(ordinal int) (Info, error) {
	w := words{uint64(ordinal)}
	names := make([]byte, 336) // name 256, bus 64, uuid 16
	if code := d.lib.call(0, opDescribe, &w, names); code != codeSuccess {
		return Info{}, d.fail(code, "describing GPU "+strconv.Itoa(ordinal))
	}
	u := names[320:]
	name := text(names[:256])
	kind, mig := "GPU", strings.Contains(name, " MIG ") // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	if mig {
		kind = "MIG"
	}
	return Info{
		Ordinal:          ordinal,
		Name:             name,
		MIG:              mig,
		BusID:            text(names[256:320]),
		UUID:             fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, u[:4], u[4:6], u[6:8], u[8:10], u[10:]),
		Major:            int(w[0]),
		Minor:            int(w[1]),
		SMs:              int(w[2]),
		Memory:           int64(w[3]),
		NUMANode:         int(int64(w[4])),
		ReadOnlyRegister: w[5] == 1,
		HostPointers:     w[6] == 1,
		SharedMemory:     int(w[7]),
		CopyEngines:      int(w[8]),
		BatchCopy:        d.lib.canBatch(),
		Driver:           d.version,
	}, nil
}
