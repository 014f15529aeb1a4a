package store

import "net/netip"

// MoveHost changes the home subnet of a host and the address to dial. Its queue, seen
// set, visits and state are stored by its name and need no change. MoveHost is for an
// Update; it fails with ErrNotFound if the host has no record.
func (tx *Tx) MoveHost(name string, to netip.Prefix, addr netip.Addr) error {
	h, err := tx.Host(name)
	if err != nil {
		return err
	}
	h.Subnet, h.Addr = to, addr.Unmap()
	return nil
}
