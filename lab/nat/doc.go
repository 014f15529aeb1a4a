// Package nat tests peers behind routers that translate addresses and forward nothing, with real
// processes in network namespaces:
//
//	go test -tags integration ./lab/nat -v
//
//	p0, 21.1.0.1 ──┐
//	p1, 21.2.0.1 ──┤ br0 ── 21.100.0.1 and so on: the sites
//	p2, 21.3.0.1 ──┤
//	               ├── r0, 21.51.0.1 ── p3, 192.168.1.2
//	               └── r1, 21.52.0.1 ── p4, 192.168.2.2
//
// The addresses look public, because AutoNAT and the relays leave all others out.
package nat
