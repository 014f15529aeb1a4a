package store

import "net/netip"

// MoveHost gives a host another home and the address to dial there; its queue,
// seen-set, visits and state stay where they are, for they are kept by its name. It
// belongs into an Update, and fails with ErrNotFound for a host without a record.
func (tx *Tx) MoveHost(name string, to netip.Prefix, addr netip.Addr) error {
	h, err := tx.Host(name)
	if err != nil {
		return err
	}
	h.Subnet, h.Addr = to, addr.Unmap()
	return nil
}
