package replica

import (
	"net/netip"
	"sync"
)

// subnetLocks excludes goroutines that change a copy or start a log of the same subnet.
type subnetLocks struct {
	mu     sync.Mutex
	locked map[netip.Prefix]chan struct{}
}

// lock waits until no other goroutine has locked the subnet, and excludes others until
// unlock is called.
func (x *subnetLocks) lock(p netip.Prefix) (unlock func()) {
	for {
		x.mu.Lock()
		c, taken := x.locked[p]
		if !taken {
			c = make(chan struct{})
			x.locked[p] = c
		}
		x.mu.Unlock()
		if !taken {
			return func() {
				x.mu.Lock()
				delete(x.locked, p)
				x.mu.Unlock()
				close(c)
			}
		}
		<-c
	}
}
