// Package nat tests peers behind routers that translate addresses, with real processes in network
// namespaces:
//
//	go test -tags integration ./lab/nat -v
//
//	p0, 21.1.0.1 ──┐
//	p1, 21.2.0.1 ──┤ br0 ── 21.100.0.1 and so on: the sites
//	p2, 21.3.0.1 ──┤
//	               ├── cone ────────── p3: its port is forwarded (full cone)
//	               ├── symm ────────── p4: a random port for each connection (symmetric)
//	               ├── outer ── inner ─ p5: behind two routers that keep ports (restricted)
//	               └── flat ──┬─────── p6: behind one that keeps ports (restricted)
//	                          └─────── p7: behind the same one
//
// The addresses look public, because AutoNAT and the relays leave all others out.
package nat
