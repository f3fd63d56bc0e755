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
func (s *Session) place(r *request) (err error) {
	own, asked := s.options.Device, r.Device
	if asked != "" && asked != own && own != "cpu" {
		if asked, err = FindDevice(s.options.Driver, asked); err != nil {
			return err
		}
	}
	switch {
	case own != "" && asked != "" && asked != own:
		return nd.Errorf(nd.ErrConfig, "Device is %q, this engine's is %q: leave it out", r.Device, own)
	case own != "":
		r.placed = placed{own, "the device of the engine"}
	case asked == "":
		r.placed = defaultDevice(s.options.Driver, r.Env)
	default:
		r.placed = placed{asked, "asked for"}
	}
	r.Device = r.placed.Device
	return nil
}

// FindDevice gives a device by its shortest name, "cpu" or "cuda:N", or says in one
// line why it cannot be used, if that can be seen without opening it. driver is the
// path of libcuda, "" for the system's.
func FindDevice(driver, device string) (string, error) {
	if device == "cpu" {
		return device, nil
	}
	if !cuda.IsName(device) {
		return "", nd.Errorf(nd.ErrConfig, "Device is %q, must be \"cpu\", \"cuda:N\", \"GPU-<uuid>\" or \"MIG-<uuid>\"", device)
	}
	d, err := cuda.Load(driver)
	if err != nil {
		return "", err
	}
	n, err := d.Find(device)
	return fmt.Sprintf("cuda:%d", n), err
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
