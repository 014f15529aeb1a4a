package store

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The key spaces. A host name never holds a NUL, so NUL ends it.
//
//	h host                            -> Host
//	f host 00 depth(2) seq(8)         -> Entry        queue, FIFO within a depth
//	q host 00 digest(16)              -> (empty)      a revisit is in the queue
//	s host 00 digest(16)              -> (empty)      URL-seen
//	x host 00 digest(16)              -> Pending      URLs of other hosts
//	p host 00 digest(16)              -> Page         fetched by this peer
//	v host 00 digest(16)              -> Visit        when to come back
//	w host 00 due(8) digest(16)       -> (empty)      the same by time, unix ms
//	t host                            -> what room crawl has learned of a host, as it encodes it
//	o prefix                          -> Subnet
//	i prefix 00 host                  -> (empty)      hosts by the subnet that is their home
//	r origin                          -> robots.txt, as room crawl encodes it
//	l prefix 00 log(8) seq(8) size(4) -> []Op         the log of a subnet's changes
//	k prefix                          -> tailMeta     where that log begins and ends
//	b prefix 00 digest(16)            -> host         at an owner: the URLs in x that a subnet's pages link to
//	c prefix 00 log(8) seq(8)         -> []crossLink  of these, those in an own queue that is not yet safe
//	y prefix 00 digest(16)            -> Pending      at a replica: the same
//	d key                             -> a datastore value of room overlay
//	m name                            -> meta: ledger (counters, last seq), small named values
const (
	spaceHost    = 'h'
	spaceQueue   = 'f'
	spaceAgain   = 'q'
	spaceSeen    = 's'
	spacePending = 'x'
	spacePage    = 'p'
	spaceVisit   = 'v'
	spaceDue     = 'w'
	spaceState   = 't'
	spaceSubnet  = 'o'
	spaceHome    = 'i'
	spaceRobots  = 'r'
	spaceLog     = 'l'
	spaceTail    = 'k'
	spaceFrom    = 'b'
	spaceCross   = 'c'
	spaceOutlink = 'y'
	spaceData    = 'd'
	spaceMeta    = 'm'
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

func digestKey(space byte, host string, d Digest) []byte {
	return append(hostPrefix(space, host), d[:]...)
}

func queueKey(host string, depth int, seq uint64) []byte {
	k := hostPrefix(spaceQueue, host)
	k = binary.BigEndian.AppendUint16(k, uint16(min(max(depth, 0), 0xffff)))
	return binary.BigEndian.AppendUint64(k, seq)
}

// Place returns e's place in the queue of its host, as it was when e was read:
// a depth of at most 65535, and a number that grows.
func (e Entry) Place() (depth int, seq uint64) {
	if len(e.Key) < 10 {
		return 0, 0
	}
	k := e.Key[len(e.Key)-10:]
	return int(binary.BigEndian.Uint16(k)), binary.BigEndian.Uint64(k[2:])
}

func homePrefix(p netip.Prefix) []byte { return hostPrefix(spaceHome, p.String()) }

func homeKey(p netip.Prefix, host string) []byte { return append(homePrefix(p), host...) }

func subnetKey(p netip.Prefix) []byte { return spaceKey(spaceSubnet, p.String()) }

// splitHost returns the host of a key made by hostPrefix, and what follows.
func splitHost(key []byte) (host string, rest []byte, err error) {
	for i := 1; i < len(key); i++ {
		if key[i] == 0 {
			return string(key[1:i]), key[i+1:], nil
		}
	}
	return "", nil, fmt.Errorf("%w: key without a host: %q", ErrCorrupt, key)
}
