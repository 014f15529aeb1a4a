package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childCommand returns a command that runs a step in a child process: self with the
// step and its options as JSON. The child exits when its standard input is closed, by
// stop or because this process exits. It is killed if it has not exited a minute later.
func childCommand(
	ctx context.Context, self []string, step string, options any,
) (cmd *exec.Cmd, stop func() error, err error) {
	if len(self) == 0 {
		return nil, nil, fmt.Errorf("soak: no command for step %q", step)
	}
	text, err := json.Marshal(options)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self[0], append(slices.Clone(self[1:]), step, string(text))...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Cancel = in.Close
	cmd.WaitDelay = time.Minute
	return cmd, in.Close, nil
}

// whileOpen returns a context that ends when in does.
func whileOpen(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // runs until the process exits
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}

// memory returns the resident memory of a process and its peak, in bytes; zeros if the
// process has exited.
func memory(pid int) (now, peak int64) {
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
			peak = n << 10
		}
	}
	return now, peak
}

// openFiles returns the number of open file descriptors of a process.
func openFiles(pid int) int {
	d, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return len(names)
}

// diskUse returns the bytes of disk space that the files below dir take. It counts
// blocks, because badger's files are sparse. It skips files that disappear meanwhile.
func diskUse(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			sum += fileUse(d)
		}
		return nil
	})
	return sum
}

// fileUse returns the bytes of disk space of one file, 0 if it does not exist any more.
func fileUse(d fs.DirEntry) int64 {
	info, err := d.Info()
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
