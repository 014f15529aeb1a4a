package netns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// WatchSyns returns a function to be called once, which calls seen for each Syn of peer i from now
// on, in their order, until ctx ends. It returns nil then.
func (n *Network) WatchSyns(i int, seen func(Syn)) (run func(context.Context) error, err error) {
	fd, err := openTap(fmt.Sprintf("p%d", i))
	if err != nil {
		return nil, fmt.Errorf("watch p%d: %w", i, err)
	}
	return func(ctx context.Context) error { return readSyns(ctx, fd, seen) }, nil
}

// readSyns reads from a socket of openTap, and closes it.
func readSyns(ctx context.Context, fd int, seen func(Syn)) error {
	defer syscall.Close(fd)
	packet, control := make([]byte, 128), make([]byte, 128)
	for ctx.Err() == nil {
		got, gotControl, _, _, err := syscall.Recvmsg(fd, packet, control, 0)
		switch {
		case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("watch connections: %w", err)
		}
		if s, ok := parseSyn(packet[:got]); ok {
			s.At = stamp(control[:gotControl])
			seen(s)
		}
	}
	return nil
}

// openTap opens a socket that gets all packets of an interface from their IP header on, each with
// the time of its arrival. A read from it ends after 100 ms.
func openTap(name string) (fd int, err error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	const all = syscall.ETH_P_ALL<<8&0xff00 | syscall.ETH_P_ALL>>8 // in network order
	fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, all)
	if err != nil {
		return 0, err
	}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO,
			&syscall.Timeval{Usec: 100_000}),
		syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}),
	)
	if err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

// stamp returns the time in the control messages of a packet, or now.
func stamp(control []byte) time.Time {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		var t syscall.Timespec
		if m.Header.Type != syscall.SO_TIMESTAMPNS {
			continue
		}
		if _, err := binary.Decode(m.Data, binary.NativeEndian, &t); err == nil {
			return time.Unix(t.Unix())
		}
	}
	return time.Now()
}

// The offsets and values that parseSyn needs (RFC 791, RFC 8200, RFC 9293).
const (
	head6   = 40 // bytes of an IPv6 header
	protTCP = 6
	flagSyn = 0x02
	flagAck = 0x10
)

// parseSyn parses the beginning of an IP packet. ok is false unless it is a SYN without ACK.
func parseSyn(b []byte) (s Syn, ok bool) {
	var from, to netip.Addr
	var tcp []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4 && b[9] == protTCP:
		from, _ = netip.AddrFromSlice(b[12:16])
		to, _ = netip.AddrFromSlice(b[16:20])
		tcp = b[min(int(b[0]&15)*4, len(b)):]
	case len(b) >= head6 && b[0]>>4 == 6 && b[6] == protTCP:
		from, _ = netip.AddrFromSlice(b[8:24])
		to, _ = netip.AddrFromSlice(b[24:40])
		tcp = b[head6:]
	}
	if len(tcp) < 14 || tcp[13]&(flagSyn|flagAck) != flagSyn {
		return s, false
	}
	s.From = netip.AddrPortFrom(from, binary.BigEndian.Uint16(tcp))
	s.To = netip.AddrPortFrom(to, binary.BigEndian.Uint16(tcp[2:]))
	return s, true
}
