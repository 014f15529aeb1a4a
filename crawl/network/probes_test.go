package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseRoutes4(t *testing.T) {
	// as the kernel of a little-endian machine writes it
	table := "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n" +
		"eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n" +
		"eth1 00000000 010200C0 0003 0 0 9 00000000 0 0 0\n" +
		"tun0 00000000 00000000 0001 0 0 0 00000000 0 0 0\n" +
		"eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
	got := fmt.Sprint(parseRoutes4(strings.NewReader(table)))
	if got != "[192.0.2.1]" && got != "[1.2.0.192]" { // the latter on a big-endian machine
		t.Errorf("parseRoutes4() = %s, want [192.0.2.1]", got)
	}
}

func TestParseRoutes6(t *testing.T) {
	zero := strings.Repeat("0", 32)
	line := func(gateway string) string {
		return zero + " 00 " + zero + " 00 " + gateway +
			" 00000400 00000002 00000000 00000003     eth0\n"
	}
	table := line("20010db8000000000000000000000001") + line("fe800000000000000000000000000001") +
		line(zero) + strings.Replace(line("20010db8000000000000000000000002"), " 00 ", " 40 ", 1)
	got := fmt.Sprint(parseRoutes6(strings.NewReader(table)))
	if got != "[2001:db8::1 fe80::1%eth0]" {
		t.Errorf("parseRoutes6() = %s", got)
	}
}

func FuzzParseRoutes(f *testing.F) {
	f.Add("eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n")
	f.Add(strings.Repeat("0", 32) + " 00 0 00 fe800000000000000000000000000001 1 2 3 4 eth0\n")
	f.Fuzz(func(t *testing.T, table string) {
		all := append(parseRoutes4(strings.NewReader(table)),
			parseRoutes6(strings.NewReader(table))...)
		for _, a := range all {
			if !a.IsValid() || a.IsUnspecified() {
				t.Errorf("gateway %v", a)
			}
		}
	})
}

func TestNameServers(t *testing.T) {
	seen := map[string]bool{}
	p := NameServers(func(_ context.Context, name string) Evidence {
		seen[name] = true
		return LocalAnswer
	})
	first, second := p(t.Context()), p(t.Context())
	if first != LocalAnswer || second != LocalAnswer || len(seen) != 2 {
		t.Errorf("looked up %v, want two different names", seen)
	}
}

func TestPeers(t *testing.T) {
	connect := func(ctx context.Context, addr netip.AddrPort) error {
		if addr.String() == "192.0.2.2:7" {
			return nil
		}
		<-ctx.Done()
		return errors.New("dial: timed out")
	}
	for want, list := range map[Evidence][]netip.AddrPort{
		NotAsked: nil,
		NoAnswer: {netip.MustParseAddrPort("192.0.2.1:7")},
		RemoteAnswer: {
			netip.MustParseAddrPort("192.0.2.1:7"), netip.MustParseAddrPort("192.0.2.2:7"),
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := Peers(connect, func() []netip.AddrPort { return list })(ctx)
			if got != want {
				t.Errorf("Peers(%v) = %d, want %d", list, got, want)
			}
		})
	}
}
