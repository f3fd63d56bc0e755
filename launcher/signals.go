package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that a user or a scheduler sends to a job that goes on:
// a notice before the time limit, a window that changed, a process that continues.
// The runtime's own (URG, CHLD, PIPE) are never among them.
func forwarded() []syscall.Signal {
	return []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGALRM}
}

// conventional are the signals that stop a job by default. Where
// --signals-to-handle leaves one out, it is forwarded too.
func conventional() []syscall.Signal {
	return []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
}

// refused cannot be caught, or belong to the runtime.
func refused() []syscall.Signal {
	return []syscall.Signal{
		syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGPROF,
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS,
	}
}

func setSignals(s *Spec, v string) error {
	s.SignalText, s.Signals = v, nil
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		number := unix.SignalNum(name)
		if number == 0 {
			return fmt.Errorf("has %q: a name such as SIGTERM is needed", name)
		}
		if slices.Contains(refused(), number) {
			return fmt.Errorf("has %s, which a process cannot wait for", name)
		}
		s.Signals = append(s.Signals, number)
	}
	return nil
}

// signalName is SIGTERM for 15, or the number where there is no name.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(n)
}
