package store

import (
	"strings"

	"github.com/headrace/headrace/nd"
)

// CheckKey refuses a key that is not a plain relative path: parts separated by
// single "/", none of them empty, "." or "..", and no NUL byte. Keys come out of
// metadata that others wrote, so this is what keeps a read inside the root.
// Symbolic links below the root are followed: data sets are spread over disks
// with them, and whoever can write a link there can write the data.
//
// The kind is nd.ErrUnsupported and not nd.ErrNotFound, so that a bad key is
// never taken for a missing chunk.
func CheckKey(key string) error {
	if strings.IndexByte(key, 0) >= 0 {
		return nd.Errorf(nd.ErrUnsupported, "key %q holds a NUL byte", key)
	}
	for rest, more := key, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if part == "" || part == "." || part == ".." {
			return nd.Errorf(nd.ErrUnsupported, "key %q is not a plain path below the root", key)
		}
	}
	return nil
}

// checkPrefix is CheckKey for List: it also takes the root and a final "/", and
// gives the prefix without it.
func checkPrefix(prefix string) (string, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return "", nil
	}
	return prefix, CheckKey(prefix)
}
