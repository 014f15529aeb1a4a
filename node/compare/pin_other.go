//go:build !linux

package main

import "os/exec"

// start starts cmd; there is no way to choose its cores here.
func start(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

const canPin = false
