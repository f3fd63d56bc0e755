package companion

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/agentapi"
	"github.com/headrace/headrace/nd"
)

// maxPath is the longest path of a socket.
const maxPath = 107

// socket is a listener at a path that is its own.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// listen makes a socket of mode 0600 at a path. A socket that nobody listens at any
// more is replaced; one in use, or what is no socket, is refused.
func listen(path string) (*socket, error) {
	if len(path) > maxPath {
		return nil, nd.Errorf(nd.ErrConfig, "the path of the socket has %d bytes, at most %d are possible: %s", len(path), maxPath, path)
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := makeFree(path); err != nil {
		return nil, err
	}
	l, err := listenPrivately(path)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it may be another's by then, see Close
	s := &socket{UnixListener: l, path: path}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "socket %s: %w", path, err), l.Close())
	}
	return s, nil
}

// makeFree refuses a path that is in use, and removes a socket that is not.
func makeFree(path string) error {
	err := agentapi.CheckStale(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return nd.Errorf(nd.ErrIO, "socket that nobody listens at: %w", err)
	}
	return nil
}

// Close stops listening and removes the socket, unless another has taken its place.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		err = os.Remove(s.path)
		return errors.Join(err, s.UnixListener.Close())
	}
	return s.UnixListener.Close()
}
