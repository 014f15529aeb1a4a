package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// insideEnv marks the process that again has started, and names its directory.
const insideEnv = "PEERD_CHAOS_INSIDE"

var errNoNamespaces = errors.New("no network namespaces here")

// again starts this program in namespaces of its own: it is the first process
// there, so that with it all peers end, and their networks. It ends when its
// standard input does, or we.
func again(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", errNoNamespaces, err)
		}
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), insideEnv+"="+dir)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = in.Close, 20*time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNoNamespaces, err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return errTold
	}
	return cmp.Or(ctx.Err(), err)
}

// settleIn gives the namespaces their own /proc, and a /run where the ip command
// may keep its networks' names.
func settleIn() error {
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

// tether makes a process end with us.
func tether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
