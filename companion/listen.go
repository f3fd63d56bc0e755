package companion

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

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
// more is replaced; one in use, or what is no socket, is refused. The socket is made
// in a folder that only this user can enter and then moved, so that it is never
// there with another mode.
func listen(path string) (*socket, error) {
	if len(path) > maxPath {
		return nil, nd.Errorf(nd.ErrConfig, "the path of the socket has %d bytes, at most %d are possible: %s", len(path), maxPath, path)
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := checkFree(path); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".hr")
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "socket: %w", err)
	}
	s, err := listenIn(private, path)
	return s, errors.Join(err, os.RemoveAll(private))
}

// checkFree refuses a path that is in use.
func checkFree(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return nd.Errorf(nd.ErrIO, "socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nd.Errorf(nd.ErrConfig, "%s is there and is no socket: name another path", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(nd.Errorf(nd.ErrConfig, "an engine listens at %s: name another path, or stop it", path), conn.Close())
	}
	return nil
}

func listenIn(private, path string) (*socket, error) {
	made := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it does not know the path
	s := &socket{UnixListener: l, path: path}
	err = os.Chmod(made, 0o600)
	if err == nil {
		err = os.Rename(made, path)
	}
	if err == nil {
		s.file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "socket %s: %w", path, err), l.Close())
	}
	return s, nil
}

// Close stops listening and removes the socket, unless another has taken its place.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		err = os.Remove(s.path)
		return errors.Join(err, s.UnixListener.Close())
	}
	return s.UnixListener.Close()
}
