package nvml_test

import (
	"errors"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/headrace/headrace/launcher/nvml"
)

// Without NVML the driver's own files tell of the GPUs, by address.
func TestGPUsFromTheDriver(t *testing.T) {
	if _, err := nvml.Library(); err == nil {
		t.Skip("NVML answers here")
	}
	information := func(uuid string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\nGPU UUID: \t " + uuid + "\nBus Location: \t 0000:3b:00.0\nDevice Minor: \t 0\n")}
	}
	root := fstest.MapFS{
		"proc/driver/nvidia/gpus/0000:3B:00.0/information": information("GPU-b"),
		"proc/driver/nvidia/gpus/0000:18:00.0/information": information("GPU-????????-????-????-????-????????????"),
		"proc/driver/nvidia/gpus/0000:5d:00.0/power":       {},
		"proc/driver/nvidia/version":                       {},
	}
	got, from, _ := nvml.GPUs(root)
	if want := []nvml.GPU{{PCI: "0000:18:00.0"}, {UUID: "GPU-b", PCI: "0000:3b:00.0"}}; !reflect.DeepEqual(got, want) || from != "/proc/driver/nvidia" {
		t.Errorf("got %+v from %s", got, from)
	}
	if got, _, err := nvml.GPUs(fstest.MapFS{}); len(got) != 0 || errors.Is(err, nvml.ErrAbsent) {
		t.Errorf("no driver: got %+v, %v", got, err)
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"0000:3b:00.0": "0000:3b:00.0", "00000000:3B:00.0": "0000:3b:00.0", "00010000:3B:00.0\n": "10000:3b:00.0", "": "", "3b:00.0": "3b:00.0", "../x": "../x",
	} {
		if got := nvml.Address(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
