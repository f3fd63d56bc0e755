package cudatest

import (
	"flag"
	"os"
	"testing"
)

var libraryPath = flag.String("library", "", "where TestLibrary leaves the fake driver, for the Python tests")

// The fake driver is built and loads, and a copy of it is another driver.
func TestLibrary(t *testing.T) {
	a, b := New(t), New(t)
	a.Devices(3)
	a.Version(12080)
	if a.Path == b.Path || b.Live() != (Live{}) {
		t.Errorf("%s and %s, %+v", a.Path, b.Path, b.Live())
	}
	if *libraryPath == "" {
		return
	}
	part := *libraryPath + ".part"
	if err := copyFile(part, a.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, *libraryPath); err != nil {
		t.Fatal(err)
	}
}
