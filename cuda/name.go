package cuda

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/nd"
)

// IsName says whether a text has the form of a device's name, whatever devices
// there are: "cuda:N" by the number that the driver gives it in this process, or
// "GPU-<uuid>" and "MIG-<uuid>" as nvidia-smi -L prints them, whole or the start.
func IsName(name string) bool {
	_, number := ordinal(name)
	_, uuid := uuidDigits(name)
	return number || uuid
}

// Find gives the ordinal of the device of that name among those that the process
// may use, which CUDA_VISIBLE_DEVICES decides. The start of a UUID is enough where
// only one device has it.
func (d *Driver) Find(name string) (int, error) {
	count, err := d.Count()
	if err != nil {
		return 0, err
	}
	if n, ok := ordinal(name); ok {
		if n >= count {
			return 0, nd.Errorf(nd.ErrDevice, "no GPU %d: the process may use %d (counted from 0)", n, count)
		}
		return n, nil
	}
	digits, ok := uuidDigits(name)
	if !ok {
		return 0, nd.Errorf(nd.ErrConfig, "device %q: want cuda:N, GPU-<uuid> or MIG-<uuid>", name)
	}
	return d.findUUID(name, digits, count)
}

func (d *Driver) findUUID(name, digits string, count int) (int, error) {
	all := make([]string, count)
	var found []int
	for i := range all {
		info, err := d.Describe(i)
		if err != nil {
			return 0, err
		}
		all[i] = info.UUID
		if own, _ := uuidDigits(info.UUID); strings.HasPrefix(own, digits) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, nd.Errorf(nd.ErrDevice, "no GPU %s: the process may use %s (CUDA_VISIBLE_DEVICES and MIG decide which)", name, strings.Join(all, ", "))
	case 1:
		return found[0], nil
	}
	all = slices.DeleteFunc(all, func(uuid string) bool {
		own, _ := uuidDigits(uuid)
		return !strings.HasPrefix(own, digits)
	})
	return 0, nd.Errorf(nd.ErrConfig, "device %q: %s begin so, give more of it", name, strings.Join(all, " and "))
}

// ordinal reads "cuda:N".
func ordinal(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), ok && err == nil
}

// uuidDigits takes the prefix and the dashes from a UUID. It takes either prefix
// for any device: that a device is an instance of a divided GPU (MIG) is known by
// its product name alone.
func uuidDigits(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "GPU-")
	if !ok {
		rest, ok = strings.CutPrefix(name, "MIG-")
	}
	digits := strings.ToLower(strings.ReplaceAll(rest, "-", ""))
	if !ok || digits == "" || len(digits) > 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	return digits, true
}
