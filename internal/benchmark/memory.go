package benchmark

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// residentPeak is the most memory that the process held (VmHWM), 0 where the
// system does not tell.
func residentPeak() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// resetPeak makes residentPeak count from now on, so that writing the data does
// not count. Where the system refuses, the peak is that of the whole process.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200)
}
