//go:build !linux

package netns

import (
	"context"
	"io"
	"os/exec"
)

// Run returns ErrUnavailable.
func Run(context.Context, []string, io.Writer, io.Writer) error { return ErrUnavailable }

// Mount returns ErrUnavailable.
func Mount() error { return ErrUnavailable }

// SetResolver returns ErrUnavailable.
func SetResolver(string) error { return ErrUnavailable }

// KillWithParent does nothing.
func KillWithParent(*exec.Cmd) {}

// WatchSyns returns ErrUnavailable.
func (n *Network) WatchSyns(int, func(Syn)) (func(context.Context) error, error) {
	return nil, ErrUnavailable
}
