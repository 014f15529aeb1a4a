package network

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// gatewayPorts are the ports at which a gateway is asked.
var gatewayPorts = [...]uint16{53, 80}

const (
	// maxRoutes bounds the bytes that are read of a routing table.
	maxRoutes = 1 << 20
	// maxGateways bounds the gateways that are asked.
	maxGateways = 4
)

// Gateway returns a Probe that connects to the default gateways of this machine. It asks nothing
// where the routing table is not in /proc/net.
func Gateway(connect ConnectFunc) Probe {
	return func(ctx context.Context) Evidence {
		var addrs []netip.AddrPort
		for _, a := range Gateways() {
			addrs = append(addrs, atPorts(a, gatewayPorts[:]...)...)
		}
		return connectAny(ctx, connect, addrs, LocalAnswer)
	}
}

// Gateways returns the default gateways of this machine.
func Gateways() (all []netip.Addr) {
	all = append(parseRoutes4(readRoutes("/proc/net/route")),
		parseRoutes6(readRoutes("/proc/net/ipv6_route"))...)
	return all[:min(len(all), maxGateways)]
}

// readRoutes returns a routing table; it is empty if it cannot be read.
func readRoutes(file string) io.Reader {
	f, err := os.Open(file)
	if err != nil {
		return strings.NewReader("")
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxRoutes)) // what was read before an error counts
	return bytes.NewReader(text)
}

// parseRoutes4 returns the gateways of the default routes in the format of /proc/net/route:
// interface, destination, gateway, ...; addresses are hexadecimal, in the order of bytes of the
// machine.
func parseRoutes4(r io.Reader) (all []netip.Addr) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		raw, err := hex.DecodeString(f[2])
		if err != nil || len(raw) != 4 {
			continue
		}
		var a [4]byte
		binary.NativeEndian.PutUint32(a[:], binary.BigEndian.Uint32(raw))
		if addr := netip.AddrFrom4(a); !addr.IsUnspecified() && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}

// parseRoutes6 returns the gateways of the default routes in the format of /proc/net/ipv6_route:
// destination, its prefix length, source, its prefix length, gateway, ..., interface.
func parseRoutes6(r io.Reader) (all []netip.Addr) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[1] != "00" || strings.Trim(f[0], "0") != "" {
			continue
		}
		raw, err := hex.DecodeString(f[4])
		if err != nil || len(raw) != 16 {
			continue
		}
		addr := netip.AddrFrom16([16]byte(raw))
		if addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(f[9])
		}
		if !addr.IsUnspecified() && !slices.Contains(all, addr) {
			all = append(all, addr)
		}
	}
	return all
}
