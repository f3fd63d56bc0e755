package session

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
	"github.com/headrace/headrace/rank"
)

// placed says where batches are made, and why there.
type placed struct {
	Device string `json:"device"`
	Reason string `json:"device_reason"`
}

// place settles the device of a request that makes batches: the engine's own, the
// one asked for, or else the rank's GPU, and the host where there is none.
func (s *Session) place(r *request) (err error) {
	own := s.options.Device
	switch {
	case own != "" && r.Device != "" && !s.isOwn(r.Device):
		return nd.Errorf(nd.ErrConfig, "Device is %q, this engine's is %q: leave it out", r.Device, own)
	case own != "":
		r.placed = placed{own, "the device of the engine"}
	case r.Device == "":
		r.placed, err = defaultDevice(s.options.Driver, r)
	default:
		r.placed.Reason = "asked for"
		r.placed.Device, err = FindDevice(s.options.Driver, r.Device)
	}
	r.Device = r.placed.Device
	return err
}

// isOwn reports whether a name is one of the engine's device.
func (s *Session) isOwn(name string) bool {
	own := s.options.Device
	if name == own || own == "cpu" {
		return name == own
	}
	device, err := FindDevice(s.options.Driver, name)
	return err == nil && device == own
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

// defaultDevice is the GPU of the client's rank, by the rule of rank.GPU, and the host
// where there is none. More ranks than GPUs are an error: whoever wants that names the
// devices.
func defaultDevice(driver string, r *request) (placed, error) {
	d, err := cuda.Load(driver)
	if err != nil {
		return placed{"cpu", why(err)}, nil
	}
	count, err := d.Count()
	if err != nil {
		return placed{"cpu", why(err)}, nil
	}
	id, err := r.identity()
	if err != nil {
		id = rank.Single() // the loader reports it; a pipeline needs no rank
	}
	choice, err := rank.GPU(id, variables(r.Env), count)
	if err != nil {
		return placed{}, nd.Errorf(nd.ErrConfig, "Device: %w", err)
	}
	r.sharing = choice.Sharing
	return placed{choice.Device(), choice.Reason}, nil
}

// why is the text of an error without its kind: here it is none.
func why(err error) string { return strings.TrimPrefix(err.Error(), nd.ErrDevice.Error()+": ") }
