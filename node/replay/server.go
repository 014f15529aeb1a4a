package replay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"peerd/node/httpserver"
)

// ErrAddr is returned for an address that other machines can reach.
var ErrAddr = errors.New("not an address of this machine alone, such as 127.0.0.1:8090")

// CheckAddr returns an error that matches ErrAddr unless addr is a loopback address and a port.
// There is no access control, so no other machine may connect.
func CheckAddr(addr string) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().IsLoopback() {
		return fmt.Errorf("%.60q: %w", addr, ErrAddr)
	}
	return nil
}

// Listen opens a socket at a loopback address, at which archived pages are shown; port 0 is any
// free one. The caller must call Run or Close.
func Listen(addr string, cfg Config) (*httpserver.Server, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	h := New(cfg)
	return httpserver.New("replay", ln, h, h.cfg.Logger), nil
}
