//go:build !linux

package crawllet

import (
	"errors"
	"os"
	"syscall"
)

// supported says why crawllets cannot be served.
var supported = errors.New("crawllet: crawllets are served on Linux only")

func processAttributes() *syscall.SysProcAttr { return nil }

func limitStart(Limits) error { return supported }

func limitRun(Limits) error { return supported }

func lockDir(string, func() error) (*os.File, error) { return nil, supported }
