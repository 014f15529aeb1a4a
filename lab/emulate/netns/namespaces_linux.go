package netns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Run starts a command in new network, process and mount namespaces and waits for it. The
// command is killed when ctx ends, 20 seconds after its standard input was closed, and when this
// process exits. As the first process of its namespace it takes all its descendants and their
// networks with it. An error that matches ErrUnavailable means that it was not started, an
// *exec.ExitError that it failed.
func Run(ctx context.Context, command []string, stdout, stderr io.Writer) error {
	if len(command) == 0 {
		return fmt.Errorf("%w: no command", ErrUnavailable)
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	cmd := exec.CommandContext(ctx, command[0], slices.Clone(command[1:])...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(),
			Size: 1}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = in.Close, 20*time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return err
	}
	return cmp.Or(ctx.Err(), err)
}

// Mount mounts /proc for the namespaces, and a /run in which the ip command stores the names of
// networks. It must be called once, in a process that Run started.
func Mount() error {
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("proc", "/proc", "proc", 0, "")
	}
	if err == nil {
		err = syscall.Mount("tmpfs", "/run", "tmpfs", 0, "")
	}
	if err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// SetResolver makes the file resolv.conf in dir, which names the gateway as the only resolver,
// the /etc/resolv.conf of these namespaces. Mount must have been called.
func SetResolver(dir string) error {
	const conf = "/etc/resolv.conf"
	file := filepath.Join(dir, "resolv.conf")
	text := fmt.Sprintf("nameserver %v\noptions timeout:5 attempts:2\n", Gateway)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if to, err := os.Readlink(conf); err == nil { // often into /run, which is empty now
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(conf), to)
		}
		if _, err := os.Stat(to); errors.Is(err, os.ErrNotExist) {
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.WriteFile(to, []byte(text), 0o644)
		}
	}
	if err := syscall.Mount(file, conf, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", conf, err)
	}
	return nil
}

// KillWithParent makes cmd exit with this process, and shields it from the terminal's SIGINT.
func KillWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
