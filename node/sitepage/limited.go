package sitepage

import (
	"net"
	"net/netip"
	"sync"

	"peerd/store"
)

// limited closes connections beyond maxConns at once, and beyond maxConnsOfSender from the
// addresses of one network, except this machine, where a proxy may run.
type limited struct {
	net.Listener

	mu  sync.Mutex
	all int
	of  map[netip.Prefix]int
}

type limitedConn struct {
	net.Conn
	leave func()
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // else all are of one network
		network := store.SubnetOf(from.Addr())
		if l.enter(network, from.Addr().Unmap().IsLoopback()) {
			return &limitedConn{c, sync.OnceFunc(func() { l.leave(network) })}, nil
		}
		c.Close()
	}
}

// enter counts a connection if there is a place for it.
func (l *limited) enter(network netip.Prefix, local bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxConns || l.of[network] >= maxConnsOfSender && !local {
		return false
	}
	if l.of == nil {
		l.of = map[netip.Prefix]int{}
	}
	l.all++
	l.of[network]++
	return true
}

func (l *limited) leave(network netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[network]--; l.of[network] == 0 {
		delete(l.of, network)
	}
}

func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
