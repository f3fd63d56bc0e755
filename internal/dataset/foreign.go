package dataset

import (
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/nd"
)

// The documents of the groups that Write makes, byte for byte: that is how its
// own groups are told from those of others.
const (
	group2 = "{\n  \"zarr_format\": 2\n}\n"
	group3 = "{\n  \"zarr_format\": 3,\n  \"node_type\": \"group\",\n  \"attributes\": {}\n}\n"
)

// foreign refuses to write an array into a zarr array or group that Write did not
// make, be it root, a folder above it or one below. A group of zarr 3 beside the
// document of a zarr 2 array would hide that array from every reader, and new
// nodes in someone's group change what it holds.
func foreign(root string, a *Array, own []string) error {
	dir := filepath.Join(root, filepath.FromSlash(a.Path))
	for _, name := range []string{"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"} {
		if there := filepath.Join(dir, name); !slices.Contains(own, name) && exists(there) {
			return refusal(there)
		}
	}
	for parent := path.Dir(a.Path); ; parent = path.Dir(parent) {
		if err := foreignGroup(filepath.Join(root, filepath.FromSlash(parent))); err != nil {
			return err
		}
		if parent == "." {
			break
		}
	}
	above, err := resolve(root)
	if err != nil {
		return err
	}
	for ; filepath.Dir(above) != above; above = filepath.Dir(above) {
		if err := foreignGroup(filepath.Dir(above)); err != nil {
			return err
		}
	}
	return nil
}

// foreignGroup refuses a folder that is a node of zarr but no group of ours.
func foreignGroup(dir string) error {
	for name, ours := range map[string]string{"zarr.json": group3, ".zgroup": group2, ".zarray": "", ".zattrs": "", ".zmetadata": ""} {
		there := filepath.Join(dir, name)
		if !exists(there) {
			continue
		}
		// A document that cannot be read is not ours either.
		if doc, err := os.ReadFile(there); err != nil || ours == "" || string(doc) != ours {
			return refusal(there)
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func refusal(document string) error {
	return nd.Errorf(nd.ErrConfig, "%s is of a zarr array or group that headrace did not write: choose a folder outside it", document)
}

// resolve is the real place of a folder of which the last parts may not exist
// yet: what a link leads into counts, not where the link lies.
func resolve(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", nd.Errorf(nd.ErrIO, "%w", err)
	}
	for there := dir; ; there = filepath.Dir(there) {
		if real, err := filepath.EvalSymlinks(there); err == nil {
			rest, err := filepath.Rel(there, dir)
			return filepath.Join(real, rest), err
		}
		if filepath.Dir(there) == there {
			return dir, nil
		}
	}
}
