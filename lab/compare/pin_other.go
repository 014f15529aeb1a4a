//go:build !linux

package compare

import "os/exec"

// start starts cmd; this system has no processor affinity.
func start(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

const canPin = false
