package nvcomp

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/headrace/headrace/cuda"
	"github.com/headrace/headrace/nd"
)

// Library is nvCOMP on one GPU.
type Library struct {
	mu      sync.Mutex // held during each call of the library
	lib     library
	version int
	gpu     *cuda.Device
	// stream is where queries run. Nothing is enqueued on it; it names the device.
	stream *cuda.Stream
}

// sonames are the library's names by the majors whose interface is known.
var sonames = [...]string{"libnvcomp.so.5", "libnvcomp.so.6"}

// Open loads nvCOMP for a GPU. path is the library, or a folder that has it: its
// own, or a Python site-packages folder with the wheel nvidia-libnvcomp-cu*. ""
// takes the one that the process has loaded or that the dynamic linker finds. The
// error, of kind ErrUnsupported, says in one line what to install or what was
// found. A Library holds a stream of the device and ends with it.
func Open(path string, gpu *cuda.Device) (*Library, error) {
	l, err := load(candidates(path), gpu.Info())
	if err != nil {
		return nil, err
	}
	l.gpu = gpu
	l.stream, err = gpu.NewStream(0)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// candidates are the names to try, in order.
func candidates(path string) []string {
	if path == "" {
		return sonames[:]
	}
	if stat, err := os.Stat(path); err != nil || !stat.IsDir() {
		return []string{path}
	}
	var list []string
	for _, folder := range []string{path, filepath.Join(path, "nvidia", "libnvcomp", "lib64")} {
		for _, name := range sonames {
			file := filepath.Join(folder, name)
			if _, err := os.Stat(file); err == nil {
				list = append(list, file)
			}
		}
	}
	if list == nil {
		return []string{filepath.Join(path, sonames[0])} // its absence is the message
	}
	return list
}

// load takes the first library that loads; one that loads and is of no use ends
// the search.
func load(names []string, gpu cuda.Info) (*Library, error) {
	why := ""
	for _, name := range names {
		lib, version, code, said := openLibrary(name)
		switch {
		case code == loadNoLibrary:
			if why == "" {
				why = said
			}
		case code == loadTooOld:
			return nil, nd.Errorf(nd.ErrUnsupported, "%s is nvCOMP %s: needed is 5.x or 6.x, %s", name, versionText(version, "4.x or older"), install(gpu))
		case code == loadNoSymbol:
			return nil, nd.Errorf(nd.ErrUnsupported, "%s (nvCOMP %s) has no %s: needed is 5.x or 6.x, %s", name, versionText(version, "of no version"), said, install(gpu))
		case version >= 7000:
			return nil, nd.Errorf(nd.ErrUnsupported, "%s is nvCOMP %s, whose interface is not known: needed is 5.x or 6.x, %s", name, versionText(version, ""), install(gpu))
		default:
			return &Library{lib: lib, version: version}, nil
		}
	}
	return nil, nd.Errorf(nd.ErrUnsupported, "no nvCOMP, %s: %s", install(gpu), why)
}

// install names the wheel for the driver: libraries of CUDA 13 need one of 13.
func install(gpu cuda.Info) string {
	major := 13
	if gpu.Driver < 13000 {
		major = 12
	}
	return fmt.Sprintf("pip install nvidia-libnvcomp-cu%d and give the path of its libnvcomp.so", major)
}

// versionText writes 5203 as 5.2.3.
func versionText(version int, unknown string) string {
	if version == 0 {
		return unknown
	}
	return fmt.Sprintf("%d.%d.%d", version/1000, version%1000/100, version%100)
}

// Version is the library's version, "5.2.0".
func (l *Library) Version() string { return versionText(l.version, "unknown") }
