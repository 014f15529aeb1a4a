package frontier

// Clocks returns the number of clocks of networks, addresses and hosts.
func (f *Frontier) Clocks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.networks.by) + len(f.addrs.by) + len(f.names.by)
}
