package cuda

import (
	"strconv"

	"github.com/headrace/headrace/nd"
)

// Driver is the loaded NVIDIA driver of this process. It needs no closing.
type Driver struct {
	lib     library
	version int
}

// Load loads and initialises the driver; "" is libcuda.so.1, as the system finds
// it. The error, of kind ErrDevice, says in one line what is missing. Loading the
// same path again is harmless.
func Load(path string) (*Driver, error) {
	if path == "" {
		path = "libcuda.so.1"
	}
	lib, version, code, said := openLibrary(path)
	switch {
	case code == codeNoLibrary:
		return nil, nd.Errorf(nd.ErrDevice, "no NVIDIA driver: %s", said)
	case code == codeNoEntry:
		return nil, nd.Errorf(nd.ErrDevice, "%s is no usable NVIDIA driver: it has no %s", path, said)
	case code == codeTooOld:
		return nil, nd.Errorf(nd.ErrDevice, "the NVIDIA driver is too old: it is of CUDA %s, needed is 12.0 or later", versionText(version))
	case code != codeSuccess:
		return nil, nd.Errorf(nd.ErrDevice, "the NVIDIA driver does not start: %s", startText(code))
	}
	d := &Driver{lib: lib, version: version}
	count, err := d.Count()
	if err == nil && count == 0 {
		err = nd.Errorf(nd.ErrDevice, "the NVIDIA driver does not start: %s", startText(100))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// startText explains a status of cuInit; there is no table to ask for names yet.
func startText(code int) string {
	switch code {
	case 34:
		return "the library is the toolkit's stub"
	case 46:
		return "the GPU is unavailable, another process may use it alone"
	case 100:
		return "it sees no GPU (CUDA_VISIBLE_DEVICES may hide it)"
	case 802:
		return "the system is not ready, nvidia-fabricmanager may not run"
	case 803:
		return "library and kernel module are of different versions"
	case 804:
		return "the compatibility package does not support this GPU"
	}
	return "CUDA error " + strconv.Itoa(code)
}

// versionText writes 12080 as 12.8.
func versionText(version int) string {
	return strconv.Itoa(version/1000) + "." + strconv.Itoa(version%1000/10)
}

// Version is the newest CUDA version that the driver knows: 12080 is 12.8.
func (d *Driver) Version() int { return d.version }

// Count says how many devices the process may use.
func (d *Driver) Count() (int, error) {
	var w words
	if code := d.lib.call(0, opDeviceCount, &w, nil); code != codeSuccess {
		return 0, d.fail(code, "counting devices")
	}
	return int(w[0]), nil
}
