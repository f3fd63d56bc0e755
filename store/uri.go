package store

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/headrace/headrace/nd"
)

// Open opens the store that a URI names: a path or file://. The root must exist
// and be a folder. I/O errors of the store are retried by opts.Retry.
func Open(uri string, opts Options) (Store, error) {
	root, err := localPath(uri)
	if err != nil {
		return nil, err
	}
	if err := checkRoot(root); err != nil {
		return nil, err
	}
	f := NewFile(root, opts)
	if f.refuse != nil {
		_ = f.Close() // nothing was opened
		return nil, f.refuse
	}
	return NewRetry(f, opts.Retry), nil
}

// localPath is the path of a URI that names a local folder.
func localPath(uri string) (string, error) {
	if uri == "" {
		return "", nd.Errorf(nd.ErrConfig, "empty URI: give a path or file://")
	}
	if strings.HasSuffix(uri, ".zip") || strings.Contains(uri, ".zip!/") {
		return "", nd.Errorf(nd.ErrUnsupported, "%q: zip files come later; unpack it", uri)
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri, nil
	}
	switch strings.ToLower(scheme) {
	case "file":
		return filePath(uri, rest)
	case "http", "https", "s3":
		return "", nd.Errorf(nd.ErrUnsupported, "%q: %s comes later; copy the data to a local path", uri, scheme)
	}
	return "", nd.Errorf(nd.ErrUnsupported, "%q: unknown scheme %q, expected a path or file://", uri, scheme)
}

// filePath is the path of a file URI (RFC 8089): an absolute, percent-encoded
// path after an empty host or localhost.
func filePath(uri, rest string) (string, error) {
	rest = strings.TrimPrefix(rest, "localhost")
	if !strings.HasPrefix(rest, "/") {
		return "", nd.Errorf(nd.ErrConfig, "%q: a file URI holds an absolute path, as in file:///data/a.zarr", uri)
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return "", nd.Errorf(nd.ErrConfig, "%q: %w", uri, err)
	}
	return path, nil
}

func checkRoot(root string) error {
	info, err := os.Stat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nd.At(nd.Errorf(nd.ErrNotFound, "there is no such folder"), nd.Place{File: root})
	case err != nil:
		return fileError(err, root, 0, 0)
	case !info.IsDir():
		return nd.At(nd.Errorf(nd.ErrNotFound, "a file, not a folder"), nd.Place{File: root})
	}
	return nil
}
