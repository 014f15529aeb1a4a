package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// start starts cmd on the cores named; without any it may run where this
// process may. A child begins with the affinity of the thread that makes it.
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

// canPin says whether this system lets a process choose its cores.
const canPin = true
