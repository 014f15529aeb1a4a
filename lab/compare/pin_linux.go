package compare

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// start starts cmd on the given cores, or on those of this process if there are none. A child
// inherits the affinity of the thread that creates it.
func start(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	var old, set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return fmt.Errorf("affinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to cores %v: %w", cpus, err)
	}
	err := cmd.Start()
	return errors.Join(err, unix.SchedSetaffinity(0, &old))
}

// canPin reports whether this system supports processor affinity.
const canPin = true
