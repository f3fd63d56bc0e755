package pipeline

import (
	"flag"
	"testing"

	"github.com/headrace/headrace/cuda/cudatest"
)

// The tests of this package run on the host; with -device fake they all run on the
// backend for GPUs over a driver that keeps the device's memory on the host, and
// with -device cuda:0 on a GPU.
var testDevice = flag.String("device", "", "where the tests run: empty for the host, fake, or cuda:N")

// onDevice is the config for the device that the tests run on.
func onDevice(t testing.TB, cfg Config) Config {
	switch *testDevice {
	case "":
		return cfg
	case "fake":
		cfg.Device, cfg.driver = "cuda:0", cudatest.New(t).Path
	default:
		cfg.Device = Device(*testDevice)
	}
	if cfg.DeviceBytes == 0 {
		cfg.DeviceBytes = 192 * mib
	}
	cfg.HostBytes = max(cfg.HostBytes, 192*mib)
	return cfg
}

// bytesOf is field i of the batch, wherever it lies.
func bytesOf(t testing.TB, b *Batch, i int) []byte {
	t.Helper()
	data := make([]byte, len(b.Samples())*b.fields[i].sampleBytes)
	if err := b.CopyTo(data, i); err != nil {
		t.Fatal(err)
	}
	return data
}
