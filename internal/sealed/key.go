package sealed

import (
	"bytes"
	"os"

	"github.com/headrace/headrace/nd"
)

// ReadKey reads a key from a file, without the ends of lines behind it. Name is the flag or
// variable that has named the file, for the error.
func ReadKey(name, path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "%s: %w", name, err)
	}
	key = bytes.TrimRight(key, "\r\n")
	if len(key) < MinKey {
		return nil, nd.Errorf(nd.ErrConfig, "%s: the key in %s has %d bytes, at least %d are wanted", name, path, len(key), MinKey)
	}
	return key, nil
}
