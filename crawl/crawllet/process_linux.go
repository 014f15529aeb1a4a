package crawllet

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supported is nil where crawllets can be served.
var supported error

const (
	// hostMemory is what the process needs beside the memory of the module, bytes: mostly for
	// compiling. The Go runtime reserves some of it without using it.
	hostMemory = 768 << 20
	// hostFiles is the maximum number of open files.
	hostFiles = 64
)

// processAttributes ends the process with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// limitStart limits the process before it reads the module. The limits cannot be raised again.
func limitStart(l Limits) error {
	return limit(map[int]uint64{
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_NOFILE: hostFiles,
		unix.RLIMIT_DATA:   hostMemory + uint64(l.Memory)<<20,
		unix.RLIMIT_CPU:    compileCPU + uint64(l.CPU),
	})
}

// limitRun limits the process before it starts the module.
func limitRun(l Limits) error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("getrusage: %w", err)
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return limit(map[int]uint64{
		unix.RLIMIT_FSIZE: 0,
		unix.RLIMIT_CPU:   uint64((cpu+time.Second-1)/time.Second) + uint64(l.CPU),
	})
}

// limit sets the soft and the hard limits, unless they are lower already.
func limit(limits map[int]uint64) error {
	for what, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(what, &now); err != nil {
			return fmt.Errorf("getrlimit %d: %w", what, err)
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("setrlimit %d: %w", what, err)
		}
	}
	return nil
}

// lockDir locks a directory until the file is closed. It first calls alone if the directory is not
// locked. Where the file system has no locks it does nothing.
func lockDir(dir string, alone func() error) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		err = alone()
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH) // it cannot be had where there are no locks
	return f, err
}
