package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/cuda/cudatest"
	"github.com/headrace/headrace/nd"
)

// A device is found by every name that a user may copy from nvidia-smi.
func TestFind(t *testing.T) {
	driver, _ := load(t)
	last := must(driver.Count())(t) - 1
	uuid := must(driver.Describe(last))(t).UUID
	for _, name := range []string{uuid, strings.ToUpper(uuid), "MIG-" + uuid[4:], uuid[:len(uuid)-4]} {
		if got := must(driver.Find(name))(t); got != last || !cuda.IsName(name) {
			t.Errorf("%s is device %d, want %d", name, got, last)
		}
	}
	if got := must(driver.Find("cuda:0"))(t); got != 0 {
		t.Errorf("cuda:0 is device %d", got)
	}
	for name, kind := range map[string]error{
		"cuda:99": nd.ErrDevice, "GPU-ffffffff-ffff": nd.ErrDevice,
		"": nd.ErrConfig, "0": nd.ErrConfig, "cuda:": nd.ErrConfig, "cuda:-1": nd.ErrConfig, "cuda:+1": nd.ErrConfig,
		"cuda:99999999999": nd.ErrConfig, "GPU-": nd.ErrConfig, "GPU-xyz": nd.ErrConfig, "gpu-01": nd.ErrConfig, "cpu": nd.ErrConfig,
	} {
		_, err := driver.Find(name)
		oneLine(t, err, kind)
		if want := errors.Is(kind, nd.ErrDevice); cuda.IsName(name) != want {
			t.Errorf("%q has the form of a name: %v", name, !want)
		}
	}
}

// A UUID that is not there, or of several devices, is answered with those that are.
func TestFindTells(t *testing.T) {
	driver, _ := load(t, func(f *cudatest.Fake) { f.Devices(3) })
	const gpu0, gpu1, gpu2 = "GPU-01000000-0000-0000-0000-000000000000", "GPU-01010000-0000-0000-0000-000000000000", "GPU-01020000-0000-0000-0000-000000000000"
	_, err := driver.Find("GPU-02")
	oneLine(t, err, nd.ErrDevice, "no GPU GPU-02", gpu0+", "+gpu1+", "+gpu2, "CUDA_VISIBLE_DEVICES")
	_, err = driver.Find("GPU-01")
	oneLine(t, err, nd.ErrConfig, gpu0+" and "+gpu1+" and "+gpu2)
	if got := must(driver.Find("GPU-0102"))(t); got != 2 {
		t.Errorf("the start of the third's UUID is device %d", got)
	}
}

// An instance of a divided GPU has the name that nvidia-smi -L gives it.
func TestFindInstance(t *testing.T) {
	driver, _ := load(t, func(f *cudatest.Fake) { f.Instance(1, "1g.5gb") })
	whole, part := must(driver.Describe(0))(t), must(driver.Describe(1))(t)
	if whole.MIG || !part.MIG || !strings.HasPrefix(whole.UUID, "GPU-") || !strings.HasPrefix(part.UUID, "MIG-") {
		t.Fatalf("%+v, %+v", whole, part)
	}
	if got := must(driver.Find(part.UUID))(t); got != 1 {
		t.Errorf("%s is device %d", part.UUID, got)
	}
}
