//go:build !linux

package testnet

import (
	"errors"
	"net/netip"
)

func addAddresses([]netip.Addr) error { return errors.New("only on Linux") }
