package session

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// placed says where batches are made, and why there.
type placed struct {
	Device string `json:"device"`
	Reason string `json:"device_reason"`
}

// place settles the device of a request that makes batches: the engine's own, the
// one asked for, or else the rank's GPU, and the host where there is none.
func (s *Session) place(r *request) error {
	own := s.options.Device
	switch {
	case own != "" && r.Device != "" && r.Device != own:
		return nd.Errorf(nd.ErrConfig, "Device is %q, this engine's is %q: leave it out", r.Device, own)
	case own != "":
		r.placed = placed{own, "the device of the engine"}
	case r.Device == "":
		r.placed = defaultDevice(s.options.Driver, r.Env)
	default:
		if err := CheckDevice(s.options.Driver, r.Device); err != nil {
			return err
		}
		r.placed = placed{r.Device, "asked for"}
	}
	r.Device = r.placed.Device
	return nil
}

// CheckDevice says in one line why a device cannot be used, if that can be seen
// without opening it. driver is the path of libcuda, "" for the system's.
func CheckDevice(driver, device string) error {
	number, gpu := strings.CutPrefix(device, "cuda:")
	if device == "cpu" {
		return nil
	}
	if !gpu {
		return nd.Errorf(nd.ErrConfig, "Device is %q, must be \"cpu\" or \"cuda:N\"", device)
	}
	d, err := cuda.Load(driver)
	if err == nil {
		_, err = d.Find(number)
	}
	return err
}

// defaultDevice is the GPU of the client's local rank. A process that sees one GPU
// of several has it for itself, whatever its rank; ranks beyond the GPUs share them.
func defaultDevice(driver string, env map[string]string) placed {
	d, err := cuda.Load(driver)
	if err != nil {
		return placed{"cpu", why(err)}
	}
	count, err := d.Count()
	if err != nil {
		return placed{"cpu", why(err)}
	}
	id, err := Identity(env)
	if err != nil {
		id.LocalRank = 0 // the loader reports it; a pipeline needs no rank
	}
	ordinal := max(0, id.LocalRank) % count
	return placed{fmt.Sprintf("cuda:%d", ordinal), fmt.Sprintf("GPU %d of %d for local rank %d", ordinal, count, id.LocalRank)}
}

// why is the text of an error without its kind: here it is none.
func why(err error) string { return strings.TrimPrefix(err.Error(), nd.ErrDevice.Error()+": ") }
