package sitepage

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// visits is a listener with connections from some addresses.
type visits struct {
	net.Listener
	from []string
}

// visit is a connection that does nothing.
type visit struct {
	net.Conn
	from string
}

var errEnd = errors.New("no more connections")

func (v *visits) Accept() (net.Conn, error) {
	if len(v.from) == 0 {
		return nil, errEnd
	}
	c := visit{from: v.from[0]}
	v.from = v.from[1:]
	return c, nil
}

func (v visit) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(v.from))
}

func (visit) Close() error { return nil }

// One network takes only a part of the places, and gives them back.
func TestConnectionsOfNetworkAreLimited(t *testing.T) {
	v := new(visits)
	l := &limited{Listener: v}
	many := func(format string) (open []net.Conn) {
		for n := range 2 * maxConns {
			v.from = append(v.from, fmt.Sprintf(format, n))
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return open
			}
			open = append(open, c)
		}
	}
	var open []net.Conn
	for _, c := range []struct {
		format string
		want   int
	}{
		{"192.0.2.%d:1", maxConnsOfSender},
		{"[::ffff:192.0.2.%d]:2", 0}, // the same
		{"[2001:db8:0:%x::1]:1", maxConnsOfSender},
		{"127.0.0.%d:1", maxConns - 2*maxConnsOfSender},
		{"10.%d.0.1:1", 0},
	} {
		got := many(c.format)
		if open = append(open, got...); len(got) != c.want {
			t.Errorf("%d connections from %s, want %d", len(got), c.format, c.want)
		}
	}
	for range 2 {
		for _, c := range open {
			_ = c.Close()
		}
	}
	if l.all != 0 || len(l.of) != 0 {
		t.Errorf("%d connections of %d networks after all were closed", l.all, len(l.of))
	}
	if got := many("192.0.2.%d:1"); len(got) != maxConnsOfSender {
		t.Errorf("%d connections later, want %d", len(got), maxConnsOfSender)
	}
}
