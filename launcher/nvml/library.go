//go:build nvml && cgo && linux

package nvml

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Library asks NVML. It loads the library, asks, and lets it go.
func Library() (gpus []GPU, err error) {
	lib := nvml.New()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, fail("starting", ret)
	}
	defer func() {
		if ret := lib.Shutdown(); ret != nvml.SUCCESS && err == nil {
			err = fail("ending", ret)
		}
	}()
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fail("counting", ret)
	}
	for i := range count {
		device, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fail(fmt.Sprintf("opening GPU %d", i), ret)
		}
		gpu, err := describe(device)
		if err != nil {
			return nil, err
		}
		gpus = append(gpus, gpu)
	}
	return gpus, nil
}

func describe(device nvml.Device) (GPU, error) {
	uuid, ret := device.GetUUID()
	if ret != nvml.SUCCESS {
		return GPU{}, fail("UUID", ret)
	}
	pci, ret := device.GetPciInfo()
	if ret != nvml.SUCCESS {
		return GPU{}, fail("PCI address", ret)
	}
	return GPU{UUID: uuid, PCI: Address(text(pci.BusId[:])), Instances: instances(device)}, nil
}

// text is a C string.
func text[T int8 | uint8](chars []T) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// instances are the MIG instances of a GPU; a GPU that has no MIG has none.
func instances(device nvml.Device) []string {
	most, ret := device.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var uuids []string
	for i := range most {
		instance, ret := device.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // numbers have gaps
		}
		if uuid, ret := instance.GetUUID(); ret == nvml.SUCCESS {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

// fail does not ask the library for the text: it may not be there.
func fail(what string, ret nvml.Return) error {
	if ret == nvml.ERROR_LIBRARY_NOT_FOUND {
		return fmt.Errorf("NVML: %s: there is no libnvidia-ml.so.1", what)
	}
	return fmt.Errorf("NVML: %s: %s (error %d)", what, ret.String(), int(ret))
}
