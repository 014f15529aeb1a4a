package testnet

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// addAddresses gives this machine IPv4 addresses, on its loopback interface: it answers for them
// on all interfaces (ARP), and they need no name of an interface. It needs CAP_NET_ADMIN.
func addAddresses(addrs []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for i, a := range addrs {
		for _, step := range []struct {
			request uint
			value   [4]byte
		}{{unix.SIOCSIFADDR, a.As4()}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 255}}} {
			req, err := unix.NewIfreq(fmt.Sprintf("lo:%d", i+1))
			if err != nil {
				return err
			}
			if err := req.SetInet4Addr(step.value[:]); err != nil {
				return err
			}
			if err := unix.IoctlIfreq(fd, step.request, req); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
	}
	return nil
}

// restartProcess replaces this process by one with the same program, arguments and number. Nothing
// is written before; files and connections are closed.
func restartProcess() error { return syscall.Exec("/proc/self/exe", os.Args, os.Environ()) }
