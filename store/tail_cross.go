package store

import (
	"encoding/binary"
	"net/netip"

	"peerd/store/kv"
)

// A cross-link is a URL that a page of one logged subnet brings into the queue
// of another. Their logs travel apart, so the replica of the first could know
// that the page is done before that of the second knows the URL: with the owner
// it would be lost. Therefore it is an out-link of the first as well, until the
// second log is trimmed behind it, which means that it is safe there.
type crossLink struct {
	_      struct{} `cbor:",toarray"`
	From   netip.Prefix
	Digest Digest
}

// The index of out-links holds the host of a URL that waits. Of a cross-link it
// holds one of these marks and a Pending; no name of a host begins with them.
const (
	crossMark     = 0 // it does not wait besides
	crossAndWaits = 1
)

// isCross says whether val, of the index, is of a cross-link.
func isCross(val []byte) bool { return len(val) > 0 && val[0] <= crossAndWaits }

// linkAt returns what the index has of an out-link of p; nil if nothing.
func (tx *Tx) linkAt(p netip.Prefix, d Digest) ([]byte, error) {
	val, err := tx.bytes(outlinkKey(spaceFrom, p, d))
	return val, ignoreNotFound(err)
}

// logCross notes that e was queued at a host, if it is a cross-link.
func (tx *Tx) logCross(to *Host, e Entry) error {
	if tx.log == nil || e.From == "" {
		return nil
	}
	h, err := tx.Host(e.From)
	if err != nil {
		return ignoreNotFound(err)
	}
	p := h.Subnet
	if p == to.Subnet || !tx.d.tail.logged(p) || !tx.d.tail.logged(to.Subnet) {
		return nil
	}
	link := crossLink{From: p, Digest: e.URL.Digest()}
	val, err := encMode.Marshal(Pending{URL: e.URL, Depth: e.Depth, From: e.From, Kind: e.Kind, Hops: e.Hops, Home: p})
	if err != nil {
		return err
	}
	tx.log.cross[to.Subnet] = append(tx.log.cross[to.Subnet], link)
	old, err := tx.linkAt(p, link.Digest)
	if err != nil {
		return err
	}
	mark := byte(crossMark)
	if len(old) > 0 && old[0] != crossMark {
		mark = crossAndWaits
	}
	tx.logLink(p, wireOp{Kind: OpOutlink, Val: val})
	return tx.set(outlinkKey(spaceFrom, p, link.Digest), append([]byte{mark}, val...))
}

// putCross keeps the cross-links into p that a transaction has made until p's
// log is trimmed behind head.
func (tx *Tx) putCross(p netip.Prefix, head TailPos) error {
	links := tx.log.cross[p]
	if len(links) == 0 {
		return nil
	}
	return tx.put(crossKey(p, head), links)
}

// releaseAtOnce is how many cross-links are released in one transaction, about.
const releaseAtOnce = 500

// releaseCross forgets the cross-links into p of which its log is trimmed
// through the given place, and those from before it was begun.
func (tx *Tx) releaseCross(p netip.Prefix, through TailPos) (more bool, err error) {
	var keys [][]byte
	var links []crossLink
	prefix := hostPrefix(spaceCross, p.String())
	err = tx.each(prefix, nil, true, func(key []byte, it kv.Item) (bool, error) {
		k := key[len(prefix):]
		if len(k) != 16 {
			return false, ErrCorrupt
		}
		if binary.BigEndian.Uint64(k) == through.Log && binary.BigEndian.Uint64(k[8:]) > through.Seq {
			return true, nil
		}
		var some []crossLink
		if err := it.Value(func(b []byte) error { return decode(key, b, &some) }); err != nil {
			return false, err
		}
		keys, links = append(keys, key), append(links, some...)
		more = len(links) >= releaseAtOnce
		return !more, nil
	})
	if err != nil {
		return false, err
	}
	for _, l := range links {
		if err := tx.release(l); err != nil {
			return false, err
		}
	}
	for _, k := range keys {
		if err := tx.del(k); err != nil {
			return false, err
		}
	}
	return more, nil
}

// release forgets a cross-link; its URL may be an out-link besides.
func (tx *Tx) release(l crossLink) error {
	key := outlinkKey(spaceFrom, l.From, l.Digest)
	val, err := tx.linkAt(l.From, l.Digest)
	if err != nil || !isCross(val) {
		return err
	}
	if val[0] == crossMark {
		tx.logLink(l.From, wireOp{Kind: OpNoOutlink, Key: l.Digest[:]})
		return tx.del(key)
	}
	var p Pending
	if err := decode(key, val[1:], &p); err != nil {
		return err
	}
	waits, err := tx.bytes(digestKey(spacePending, p.URL.Host(), l.Digest))
	if err != nil {
		return err
	}
	tx.logLink(l.From, wireOp{Kind: OpOutlink, Val: waits})
	return tx.set(key, []byte(p.URL.Host()))
}

func crossKey(p netip.Prefix, at TailPos) []byte {
	k := binary.BigEndian.AppendUint64(hostPrefix(spaceCross, p.String()), at.Log)
	return binary.BigEndian.AppendUint64(k, at.Seq)
}
