package frontier

// MaxAheadBytes is the approximate size of what is read ahead of all hosts.
const MaxAheadBytes = maxAheadBytes

// Ahead returns the number of entries of a host that were read ahead, and their size.
func (f *Frontier) Ahead(name string) (n, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.hosts[name].turns.finders {
		for _, e := range q.window.entries {
			n++
			size += len(e.URL) + len(e.Key) + entryOverhead
		}
	}
	return n, size
}

// Clocks returns the number of clocks of networks, addresses and hosts.
func (f *Frontier) Clocks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.networks.by) + len(f.addrs.by) + len(f.names.by)
}
