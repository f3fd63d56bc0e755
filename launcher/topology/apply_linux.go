package topology

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Apply binds the calling thread: processes that it starts from now on inherit the
// binding before their first instruction. The caller has locked the goroutine to
// its thread (runtime.LockOSThread) and calls undo, which gives the thread its CPUs
// back, before it starts anything else. An empty binding changes nothing.
//
// Memory is placed on the node of the CPU that first writes it, which for CPUs of
// one node is that node, and elsewhere when it is full: a policy that the launcher
// itself was started with (numactl --interleave) does not reach bound ranks.
func (b Binding) Apply() (undo func() error, err error) {
	if len(b.CPUs) == 0 {
		return func() error { return nil }, nil
	}
	before := unix.NewCPUSet(mostCPUs)
	if err := unix.SchedGetaffinityDynamic(0, before); err != nil {
		return nil, fmt.Errorf("CPUs of this thread: %w", err)
	}
	if err := b.ApplyTo(0); err != nil {
		return nil, err
	}
	undo = func() error { return unix.SchedSetaffinityDynamic(0, before) }
	// Not permitted in some containers, whose policy is the default, local, anyway.
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, unix.MPOL_LOCAL, 0, 0); errno != 0 && errno != unix.EPERM && errno != unix.ENOSYS {
		return nil, errors.Join(fmt.Errorf("memory policy: %w", errno), undo())
	}
	return undo, nil
}

// ApplyTo binds the CPUs of another thread, by its id; 0 is the calling thread.
// Threads that exist already and memory policy are as they were.
func (b Binding) ApplyTo(pid int) error {
	if len(b.CPUs) == 0 {
		return nil
	}
	set := unix.NewCPUSet(mostCPUs)
	for _, cpu := range b.CPUs {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinityDynamic(pid, set); err != nil {
		return fmt.Errorf("binding to CPUs %s: %w", b.CPUs, err)
	}
	return nil
}
