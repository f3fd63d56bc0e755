package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
)

// RemoveStale removes temporary files of target that a process which was killed
// left behind. Those that a living process writes stay.
func RemoveStale(target string) {
	target, err := follow(target)
	if err != nil {
		return // making the file says so
	}
	folder, start := prefix(target)
	if folder == "" {
		folder = "."
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() && isTemporary(e.Name(), start) {
			removeUnheld(filepath.Join(folder, e.Name()))
		}
	}
}

// RemoveStaleIn is RemoveStale for every target in a folder and below it.
func RemoveStaleIn(folder string) {
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if start := strings.LastIndex(d.Name(), ".tmp"); start > 1 && isTemporary(d.Name(), d.Name()[:start+len(".tmp")]) {
				removeUnheld(path)
			}
		}
		return nil // what cannot be looked at holds no work of this process
	})
}

// isTemporary reports whether a name is the start and a number.
func isTemporary(name, start string) bool {
	number, ok := strings.CutPrefix(name, start)
	return ok && strings.HasPrefix(name, ".") && number != "" && strings.Trim(number, "0123456789") == ""
}

func removeUnheld(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) // a lock over NFS needs both
	if err != nil {
		return
	}
	if held, err := hold(file); err == nil && held {
		_ = os.Remove(path)
	}
	_ = file.Close()
}
