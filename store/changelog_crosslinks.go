package store

import (
	"encoding/binary"
	"net/netip"

	"peerd/store/kv"
)

// crossLink is a URL found on a page of one logged subnet and queued in another logged
// subnet of this peer. The two change logs are sent independently. So the replica of the
// first could know that the page is done before the replica of the second knows the URL,
// which would be lost with the owner. Therefore the URL is an out-link of the first
// subnet, too, until the log of the second is trimmed behind it: then it is on the disks
// of the replicas of the second.
type crossLink struct {
	_      struct{} `cbor:",toarray"`
	From   netip.Prefix
	Digest Digest
}

// The value of an entry of the out-link index is the host of the pending URL. For a
// cross-link, it is one of these bytes, with which no host name begins, and a Pending.
const (
	crossOnly       = 0 // cross-link that is not pending
	crossAndPending = 1
)

// isCrossLink reports whether val, a value of the index, is for a cross-link.
func isCrossLink(val []byte) bool { return len(val) > 0 && val[0] <= crossAndPending }

// indexedOutlink returns the value in the index of an out-link of p, or nil.
func (tx *Tx) indexedOutlink(p netip.Prefix, d Digest) ([]byte, error) {
	val, err := tx.bytes(outlinkKey(spaceOutlinkIndex, p, d))
	return val, IgnoreNotFound(err)
}

// logCrossLink logs that e was queued at a host, if it is a cross-link.
func (tx *Tx) logCrossLink(to *Host, e Entry) error {
	if tx.log == nil || e.From == "" {
		return nil
	}
	h, err := tx.Host(e.From)
	if err != nil {
		return IgnoreNotFound(err)
	}
	p := h.Subnet
	if p == to.Subnet || !tx.d.logs.logged(p) || !tx.d.logs.logged(to.Subnet) {
		return nil
	}
	link := crossLink{From: p, Digest: e.URL.Digest()}
	val, err := encMode.Marshal(Pending{URL: e.URL, Depth: e.Depth, From: e.From, Kind: e.Kind,
		Hops: e.Hops, FromSubnet: p})
	if err != nil {
		return err
	}
	tx.log.crossLinks[to.Subnet] = append(tx.log.crossLinks[to.Subnet], link)
	old, err := tx.indexedOutlink(p, link.Digest)
	if err != nil {
		return err
	}
	kind := byte(crossOnly)
	if len(old) > 0 && old[0] != crossOnly {
		kind = crossAndPending
	}
	tx.logOutlink(p, wireOp{Kind: OpOutlink, Val: val})
	return tx.set(outlinkKey(spaceOutlinkIndex, p, link.Digest), append([]byte{kind}, val...))
}

// putCrossLinks stores the cross-links into p that the transaction has found, until the
// log of p is trimmed up to head.
func (tx *Tx) putCrossLinks(p netip.Prefix, head LogPos) error {
	links := tx.log.crossLinks[p]
	if len(links) == 0 {
		return nil
	}
	return tx.put(crossLinkKey(p, head), links)
}

// releaseBatchSize is the approximate number of cross-links released in one transaction.
const releaseBatchSize = 500

// releaseCrossLinks deletes the cross-links into p up to the given position of its log,
// and those of earlier logs.
func (tx *Tx) releaseCrossLinks(p netip.Prefix, through LogPos) (more bool, err error) {
	var keys [][]byte
	var links []crossLink
	prefix := hostPrefix(spaceCrossLink, p.String())
	err = tx.each(prefix, nil, true, func(key []byte, it kv.Item) (bool, error) {
		k := key[len(prefix):]
		if len(k) != 16 {
			return false, ErrCorrupt
		}
		if binary.BigEndian.Uint64(k) == through.Log &&
			binary.BigEndian.Uint64(k[8:]) > through.Seq {
			return true, nil
		}
		var some []crossLink
		if err := it.Value(func(b []byte) error { return decode(key, b, &some) }); err != nil {
			return false, err
		}
		keys, links = append(keys, key), append(links, some...)
		more = len(links) >= releaseBatchSize
		return !more, nil
	})
	if err != nil {
		return false, err
	}
	for _, l := range links {
		if err := tx.releaseCrossLink(l); err != nil {
			return false, err
		}
	}
	if err := tx.del(keys...); err != nil {
		return false, err
	}
	return more, nil
}

// releaseCrossLink deletes a cross-link. If its URL is pending, it remains an out-link.
func (tx *Tx) releaseCrossLink(l crossLink) error {
	key := outlinkKey(spaceOutlinkIndex, l.From, l.Digest)
	val, err := tx.indexedOutlink(l.From, l.Digest)
	if err != nil || !isCrossLink(val) {
		return err
	}
	if val[0] == crossOnly {
		tx.logOutlink(l.From, wireOp{Kind: OpDeleteOutlink, Key: l.Digest[:]})
		return tx.del(key)
	}
	var p Pending
	if err := decode(key, val[1:], &p); err != nil {
		return err
	}
	pending, err := tx.bytes(digestKey(spacePending, p.URL.Host(), l.Digest))
	if err != nil {
		return err
	}
	tx.logOutlink(l.From, wireOp{Kind: OpOutlink, Val: pending})
	return tx.set(key, []byte(p.URL.Host()))
}

func crossLinkKey(p netip.Prefix, at LogPos) []byte {
	k := binary.BigEndian.AppendUint64(hostPrefix(spaceCrossLink, p.String()), at.Log)
	return binary.BigEndian.AppendUint64(k, at.Seq)
}
