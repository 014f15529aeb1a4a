package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// again is a command that starts this program once more. Standard input stays
// open until the returned function is called, or we are gone: then it ends. It
// is killed if it has not within a minute.
func again(ctx context.Context, args ...string) (cmd *exec.Cmd, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Cancel = in.Close
	cmd.WaitDelay = time.Minute
	return cmd, in.Close, nil
}

// childEnv marks a process that again has started.
const childEnv = "PEERD_SOAK_CHILD"

// whileOpen returns a context that ends when standard input does.
func whileOpen(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}

// memory returns what a process has in memory now and had at most, in bytes;
// zeros when it is gone.
func memory(pid int) (now, most int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, rest, _ := strings.Cut(sc.Text(), ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = n << 10
		case "VmHWM":
			most = n << 10
		}
	}
	return now, most
}

// openFiles counts the descriptors of a process.
func openFiles(pid int) int {
	d, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return len(names)
}

// diskUse sums the blocks that the files below dir take: badger's files are
// larger than that, and sparse. A file that goes meanwhile counts nothing.
func diskUse(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			} else {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}
