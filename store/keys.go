package store

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// The key spaces. A host name contains no NUL, so a NUL ends it. Package crawl encodes
// the values of t and r, packages overlay and crawl those of d.
//
//	h host                            -> Host
//	f host 00 place(2) seq(8)         -> Entry        queue, FIFO at a place
//	q host 00 digest(16)              -> (empty)      URLs with a revisit in the queue
//	s host 00 digest(16)              -> (empty)      URLs ever accepted (seen)
//	x host 00 digest(16)              -> Pending      pending URLs
//	p host 00 digest(16)              -> Page         fetched by this peer
//	v host 00 digest(16)              -> Visit        planned visits
//	g host 00 digest(16)       -> GivenUp      URLs that are no longer tried
//	w host 00 due(8) digest(16)       -> (empty)      visits by due time, Unix ms
//	t host                            -> state of a host
//	o prefix                          -> Subnet
//	i prefix 00 host                  -> (empty)      hosts by home subnet
//	r origin                          -> robots.txt
//	l prefix 00 log(8) seq(8) size(4) -> []Op         records of change logs
//	k prefix                          -> logState     state of a change log
//	b prefix 00 digest(16)            -> host         out-links of a subnet, at its owner
//	c prefix 00 log(8) seq(8)         -> []crossLink  cross-links into a subnet
//	y prefix 00 digest(16)            -> Pending      out-links of a subnet, at a replica
//	d key                             -> data of other packages
//	m name                            -> counters, last seq, small named values
const (
	spaceHost           = 'h'
	spaceQueue          = 'f'
	spaceRevisit        = 'q'
	spaceSeen           = 's'
	spacePending        = 'x'
	spacePage           = 'p'
	spaceVisit          = 'v'
	spaceDue            = 'w'
	spaceGivenUp        = 'g'
	spaceState          = 't'
	spaceSubnet         = 'o'
	spaceSubnetHost     = 'i'
	spaceRobots         = 'r'
	spaceLog            = 'l'
	spaceLogState       = 'k'
	spaceOutlinkIndex   = 'b'
	spaceCrossLink      = 'c'
	spaceReplicaOutlink = 'y'
	spaceData           = 'd'
	spaceMeta           = 'm'
)

func spaceKey(space byte, name string) []byte {
	return append([]byte{space}, name...)
}

func hostPrefix(space byte, host string) []byte {
	k := make([]byte, 0, len(host)+26)
	k = append(k, space)
	k = append(k, host...)
	return append(k, 0)
}

// keyBehind returns the key of last below prefix, behind which Tx.each is to start; nil if last is
// empty.
func keyBehind(prefix []byte, last string) []byte {
	if last == "" {
		return nil
	}
	return slices.Concat(prefix, []byte(last))
}

func digestKey(space byte, host string, d Digest) []byte {
	return append(hostPrefix(space, host), d[:]...)
}

// behind returns the key with a prefix that ends with a digest; nil for a nil digest.
func behind(prefix []byte, after *Digest) []byte {
	if after == nil {
		return nil
	}
	return slices.Concat(prefix, after[:])
}

// The place of an entry in the queue of its host tells its finder and its depth, so that the
// entries of a finder are in order of depth. Greater depths than there are places for are one.
// Places were depths once: of entries that were queued then, the deep ones count as another
// finder's.
const (
	// Finders is how many finders of a host's URLs are told apart. The first, 0, is this peer
	// itself; others share numbers.
	Finders = 31
	// FinderRelayed, the last, is no peer: it is for URLs that a peer has of others, such as those
	// of a copy that it continues. What they are worth says nothing about who sent them.
	FinderRelayed = Finders - 1
	// FinderPlaces is how many places a finder has.
	FinderPlaces = 1 << 11
	// RetryPlace is the place of entries that are tried again, the last one of this peer itself.
	RetryPlace = FinderPlaces - 1
	// DeferredPlace is the place of deferred entries, behind those of all finders.
	DeferredPlace = 0xffff
)

// Place returns where e is queued.
func (e Entry) Place() int {
	place := min(max(e.Finder, 0), Finders-1) * FinderPlaces
	if e.Ahead {
		return place
	}
	return place + min(max(e.Depth, 0), FinderPlaces-1)
}

func queueKey(host string, place int, seq uint64) []byte {
	k := hostPrefix(spaceQueue, host)
	k = binary.BigEndian.AppendUint16(k, uint16(min(max(place, 0), 0xffff)))
	return binary.BigEndian.AppendUint64(k, seq)
}

// Position returns the position of e in the queue of its host when e was read: a place
// of at most 65535, and a sequence number.
func (e Entry) Position() (place int, seq uint64) {
	if len(e.Key) < 10 {
		return 0, 0
	}
	k := e.Key[len(e.Key)-10:]
	return int(binary.BigEndian.Uint16(k)), binary.BigEndian.Uint64(k[2:])
}

// Deferred reports whether e was deferred when it was read.
func (e Entry) Deferred() bool {
	place, _ := e.Position()
	return place == DeferredPlace && e.Depth < place
}

func subnetHostPrefix(p netip.Prefix) []byte { return hostPrefix(spaceSubnetHost, p.String()) }

func subnetHostKey(p netip.Prefix, host string) []byte {
	return append(subnetHostPrefix(p), host...)
}

func subnetKey(p netip.Prefix) []byte { return spaceKey(spaceSubnet, p.String()) }
