package feed

import (
	"errors"
	"fmt"

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
	// Plain asks for the packet again, without differences: a last version is missing, or there is
	// not enough memory for the bodies to which they lead.
	Plain bool `cbor:"2,keyasint,omitempty"`
}

// item is an exchange.
type item struct {
	warc.Exchange `cbor:"1,keyasint"`
	// Base is the time of the version of the page to which Body is the difference; Unix time in ns,
	// 0: Body is the body.
	Base int64 `cbor:"2,keyasint,omitempty"`
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
	for i := range p.Items {
		x := &p.Items[i]
		x.Time = x.Time.UTC()
		if r := x.Revisit; r != nil {
			r.Time = r.Time.UTC()
		}
		if len(x.Response) == 0 || x.Time.Year() < 1990 || x.Time.Year() > 2200 ||
			x.Revisit != nil && x.Revisit.Time.Year() > 2200 {
			return fmt.Errorf("%w: exchange at %s with %d bytes of header", ErrPacket, x.Time,
				len(x.Response))
		}
	}
	return nil
}

// size returns the size of an exchange in a packet, about. Bytes.
func (i *item) size() int {
	n := 256 + len(i.URL) + len(i.Request) + len(i.Response) + len(i.Body)
	for _, f := range i.Metadata {
		n += len(f.Name) + len(f.Value) + 6
	}
	return n
}
