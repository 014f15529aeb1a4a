//go:build !linux

package testnet

import (
	"errors"
	"net/netip"
)

var errLinux = errors.New("only on Linux")

func addAddresses([]netip.Addr) error { return errLinux }

func restartProcess() error { return errLinux }
