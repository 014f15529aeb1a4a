package feed

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/store/warc"
)

// Limits of messages.
const (
	// MaxHosts bounds the hosts that a collector asks for.
	MaxHosts = 1000
	maxHost  = 253 // bytes
	// MaxTopics bounds the topics that a collector asks for; each is a query (index.MaxQuery).
	MaxTopics  = 64
	maxRequest = 1 << 20 // bytes
	// packetSize is the size at which a packet is sent. Bytes.
	packetSize = 1 << 20
	// maxExchange bounds each record of an exchange. Bytes.
	maxExchange = 16 << 20
	// maxPacket bounds a packet: nearly full, and then the largest exchange. Bytes.
	maxPacket = packetSize + 2*maxExchange
	// maxItems bounds the exchanges of a packet.
	maxItems  = 4096
	maxReason = 256 // bytes of a refusal that are quoted in an error
)

// ErrPacket means that a peer sent a packet that no honest peer sends.
var ErrPacket = errors.New("feed: invalid packet")

// request opens a conversation.
type request struct {
	// Hosts are the hosts to collect; none: all.
	Hosts []string `cbor:"1,keyasint,omitempty"`
	// At is the position in the archive of the sender: offsets in bytes, by file.
	At map[string]int64 `cbor:"2,keyasint,omitempty"`
	// Topics are queries: pages that match one are collected, too. With Topics alone only those.
	Topics []string `cbor:"3,keyasint,omitempty"`
	// Deltas says that the collector takes differences to the last versions of pages.
	Deltas bool `cbor:"4,keyasint,omitempty"`
}

// packet is sent in answer to a request and to each ack. One without At and Items says that there
// is nothing new.
type packet struct {
	Refused string           `cbor:"1,keyasint,omitempty"`
	At      map[string]int64 `cbor:"2,keyasint,omitempty"` // what has changed in the position
	Items   []item           `cbor:"3,keyasint,omitempty"`
}

// ack says that the collector has the last packet on disk.
type ack struct {
	Stored bool `cbor:"1,keyasint"`
	// Plain asks for the packet again, without differences: a last version is missing.
	Plain bool `cbor:"2,keyasint,omitempty"`
}

// item is an exchange.
type item struct {
	URL       string   `cbor:"1,keyasint"`
	Time      int64    `cbor:"2,keyasint"` // Unix time in ns
	Addr      []byte   `cbor:"3,keyasint,omitempty"`
	Request   []byte   `cbor:"4,keyasint,omitempty"`
	Response  []byte   `cbor:"5,keyasint"`
	Body      []byte   `cbor:"6,keyasint,omitempty"`
	Truncated string   `cbor:"7,keyasint,omitempty"`
	Protocols []string `cbor:"8,keyasint,omitempty"`
	Cipher    string   `cbor:"9,keyasint,omitempty"`
	Revisit   *revisit `cbor:"10,keyasint,omitempty"`
	// Metadata are names and values, in turn.
	Metadata []string `cbor:"11,keyasint,omitempty"`
	// Base is the time of the version of the page to which Body is the difference; Unix time in ns,
	// 0: Body is the body.
	Base int64 `cbor:"12,keyasint,omitempty"`
}

// revisit is a warc.Revisit.
type revisit struct {
	Profile string `cbor:"1,keyasint"`
	URL     string `cbor:"2,keyasint,omitempty"`
	Time    int64  `cbor:"3,keyasint,omitempty"` // Unix time in ns; 0: none
	Digest  string `cbor:"4,keyasint,omitempty"`
}

func (r *request) check() error {
	if len(r.Hosts) > MaxHosts {
		return fmt.Errorf("%d hosts, at most %d", len(r.Hosts), MaxHosts)
	}
	if len(r.Topics) > MaxTopics {
		return fmt.Errorf("%d topics, at most %d", len(r.Topics), MaxTopics)
	}
	for _, h := range r.Hosts {
		if len(h) > maxHost {
			return fmt.Errorf("a host of %d bytes", len(h))
		}
	}
	return warc.CheckPosition(r.At)
}

// check checks the form of a packet; the archive checks the exchanges.
func (p *packet) check() error {
	if err := warc.CheckPosition(p.At); err != nil {
		return fmt.Errorf("%w: %w", ErrPacket, err)
	}
	if len(p.Items) > maxItems || len(p.Items) > 0 && len(p.At) == 0 {
		return fmt.Errorf("%w: %d exchanges and %d files", ErrPacket, len(p.Items), len(p.At))
	}
	for _, i := range p.Items {
		at := time.Unix(0, i.Time)
		if len(i.Response) == 0 || at.Year() < 1990 || at.Year() > 2200 || len(i.Metadata)%2 != 0 {
			return fmt.Errorf("%w: exchange at %s with %d bytes of header", ErrPacket, at,
				len(i.Response))
		}
	}
	return nil
}

// newItem returns the form in which an exchange is sent.
func newItem(x *warc.Exchange) item {
	i := item{URL: x.URL, Time: x.Time.UnixNano(), Request: x.Request, Response: x.Response,
		Body: x.Body, Truncated: x.Truncated, Protocols: x.Protocols, Cipher: x.CipherSuite}
	if x.Addr.IsValid() {
		i.Addr = x.Addr.Unmap().AsSlice()
	}
	for _, f := range x.Metadata {
		i.Metadata = append(i.Metadata, f.Name, f.Value)
	}
	if v := x.Revisit; v != nil {
		i.Revisit = &revisit{Profile: v.Profile, URL: v.URL, Digest: v.Digest}
		if !v.Time.IsZero() {
			i.Revisit.Time = v.Time.UnixNano()
		}
	}
	return i
}

// exchange is the inverse of newItem. The packet must be checked.
func (i *item) exchange(from string) warc.Exchange {
	x := warc.Exchange{URL: i.URL, Time: time.Unix(0, i.Time).UTC(), Request: i.Request,
		Response: i.Response, Body: i.Body, Truncated: i.Truncated, Protocols: i.Protocols,
		CipherSuite: i.Cipher, From: from}
	x.Addr, _ = netip.AddrFromSlice(i.Addr) // optional
	for f := i.Metadata; len(f) > 1; f = f[2:] {
		x.Metadata = append(x.Metadata, warc.Field{Name: f[0], Value: f[1]})
	}
	if v := i.Revisit; v != nil {
		x.Revisit = &warc.Revisit{Profile: v.Profile, URL: v.URL, Digest: v.Digest}
		if v.Time != 0 {
			x.Revisit.Time = time.Unix(0, v.Time).UTC()
		}
	}
	return x
}

// size returns the size of an exchange in a packet, about. Bytes.
func (i *item) size() int {
	n := 256 + len(i.URL) + len(i.Request) + len(i.Response) + len(i.Body)
	for _, s := range i.Metadata {
		n += len(s) + 3
	}
	return n
}
