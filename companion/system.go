package companion

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/nd"
)

// shared makes a file of n bytes without a name, sealed against any change of its
// size (a mapping of a file that shrinks faults), and maps it.
func shared(n int64) (fd int, mem []byte, err error) {
	if fd, err = unix.MemfdCreate("headrace batch", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	if err = unix.Ftruncate(fd, n); err != nil {
		return -1, nil, err
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return -1, nil, err
	}
	if mem, err = unix.Mmap(fd, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return -1, nil, err
	}
	// Large pages are a matter of speed alone: a kernel without them may refuse.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return fd, mem, nil
}

func unmap(mem []byte) error { return unix.Munmap(mem) }

// closeDescriptor closes a descriptor; one below 0 is none.
func closeDescriptor(fd int) error {
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// short reports whether the system is short of descriptors or memory, which may pass.
func short(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM)
}

// rights is the control message that carries a descriptor.
func rights(fd int) []byte { return unix.UnixRights(fd) }

// descriptors are those in control messages that came with the flags. They are the
// caller's, with an error too.
func descriptors(oob []byte, flags int) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, nd.Errorf(nd.ErrBug, "control message: %w", err)
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, nd.Errorf(nd.ErrBug, "control message: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		all = append(all, fds...)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return all, nd.Errorf(nd.ErrBudget, "this process can open no more files (ulimit -n): a descriptor that came is lost")
	}
	return all, nil
}

// listenPrivately makes a socket that only this user can connect to, from the start:
// on Linux bind gives the file the mode of the descriptor.
func listenPrivately(path string) (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var refused error
		err := conn.Control(func(fd uintptr) { refused = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, refused)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// pipeEnd makes a file of a pipe's end whose reader waits in the poller, so that
// closing it wakes the reader. One of another file might wait for ever, or have no end.
func pipeEnd(fd int) (*os.File, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, errors.Join(nd.Errorf(nd.ErrBug, "the release pipe is no pipe"), unix.Close(fd))
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "release pipe: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "release pipe"), nil
}

// checkPeer refuses a client of another user than own, and gives its process.
func checkPeer(conn *net.UnixConn, own int) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nd.Errorf(nd.ErrIO, "credentials of the client: %w", err)
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, nd.Errorf(nd.ErrIO, "credentials of the client: %w", err)
	}
	if int(cred.Uid) != own {
		return 0, nd.Errorf(nd.ErrConfig, "the client belongs to user %d, the engine to user %d: they must be the same", cred.Uid, own)
	}
	return int(cred.Pid), nil
}

// process is a descriptor of a process that can be waited for. A connection may
// outlive the process that made it, in children that inherited it.
func process(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "process"), nil
}

// waitFor returns when the process has ended, or the file was closed.
func waitFor(process *os.File) {
	raw, err := process.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // its error is that the file was closed
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || (err != nil && !errors.Is(err, unix.EINTR))
	})
}

// lockFolder keeps other engines from starting in a folder until unlock is called.
func lockFolder(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "folder of the socket: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(nd.Errorf(nd.ErrIO, "folder of the socket: %w", err), f.Close())
	}
	return func() {
		_ = f.Close() // which unlocks
	}, nil
}
