// Package join lets operators found a network, invite others and join one. An invitation is one
// [Line] of text: the network, the digest of its profile, addresses of peers to join through and,
// unless the network is open, a permission that the inviting peer has signed.
//
// It works on homes and does not need a running peer, except the one that is asked to join.
package join

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay"
	"peerd/overlay/admission"
	"peerd/overlay/record"
)

// ErrLine is returned for a text that is not an invitation, or a part of one.
var ErrLine = errors.New("not an invitation, want the whole line that \"peerd invite\" printed")

// A Line is an invitation as text.
type Line struct {
	// Network is the network's identifier, and Digest that of its profile, by which a new peer
	// checks what it is sent.
	Network string
	Digest  [sha256.Size]byte
	// Peers are the peers to join through. Only the first one can redeem Invitation.
	Peers []peer.AddrInfo
	// Invitation is sealed; nil in an open network.
	Invitation []byte
}

// linePrefix begins every line, and names its form.
const linePrefix = "peerd1-"

// Bounds of a line.
const (
	maxLine  = 8 << 10 // characters
	maxAddrs = 16
	sumBytes = 4
)

// lineBody is the CBOR form of a Line. Addresses are binary multiaddrs with peer ID.
type lineBody struct {
	Network    string   `cbor:"1,keyasint"`
	Digest     []byte   `cbor:"2,keyasint"`
	Addrs      [][]byte `cbor:"3,keyasint"`
	Invitation []byte   `cbor:"4,keyasint,omitempty"`
}

// String returns the text: a prefix, and in base64url a CBOR value and the first bytes of its
// SHA-256, by which a line that was cut or misspelt is recognized.
func (l Line) String() string {
	b := lineBody{Network: l.Network, Digest: l.Digest[:], Invitation: l.Invitation}
	for _, p := range l.Peers {
		addrs, _ := peer.AddrInfoToP2pAddrs(&p) // fails for invalid IDs only
		for _, a := range addrs {
			b.Addrs = append(b.Addrs, a.Bytes())
		}
	}
	data, err := record.Encode(b, maxLine)
	if err != nil {
		return "" // larger than any line that Invite makes
	}
	sum := sha256.Sum256(data)
	return linePrefix + base64.RawURLEncoding.EncodeToString(append(data, sum[:sumBytes]...))
}

// ParseLine is the inverse of String. It ignores white space, which mail programs add. The error
// matches ErrLine.
func ParseLine(text string) (Line, error) {
	l, err := parseLine(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return Line{}, fmt.Errorf("%w (%w)", ErrLine, err)
	}
	return l, nil
}

func parseLine(text string) (l Line, err error) {
	code, ok := strings.CutPrefix(text, linePrefix)
	if !ok || len(text) > maxLine {
		return l, fmt.Errorf("it does not begin with %s", linePrefix)
	}
	data, err := base64.RawURLEncoding.DecodeString(code)
	if err != nil || len(data) < sumBytes {
		return l, errors.New("a character is wrong")
	}
	data, sum := data[:len(data)-sumBytes], data[len(data)-sumBytes:]
	if want := sha256.Sum256(data); !bytes.Equal(sum, want[:sumBytes]) {
		return l, errors.New("a part is missing or wrong")
	}
	var b lineBody
	if err := record.Decode(data, maxLine, &b); err != nil {
		return l, err
	}
	return b.line()
}

// line checks b.
func (b lineBody) line() (l Line, err error) {
	l = Line{Network: b.Network, Invitation: b.Invitation}
	if _, err := overlay.NewNames(b.Network); err != nil {
		return l, err
	}
	switch {
	case len(b.Digest) != len(l.Digest):
		return l, fmt.Errorf("digest of %d bytes", len(b.Digest))
	case len(b.Addrs) == 0 || len(b.Addrs) > maxAddrs:
		return l, fmt.Errorf("%d addresses, want 1 to %d", len(b.Addrs), maxAddrs)
	case len(b.Invitation) > admission.MaxInvitation:
		return l, fmt.Errorf("permission of %d bytes", len(b.Invitation))
	}
	l.Digest = [sha256.Size]byte(b.Digest)
	for _, raw := range b.Addrs {
		a, err := ma.NewMultiaddrBytes(raw)
		if err != nil {
			return l, fmt.Errorf("address: %w", err)
		}
		p, err := peer.AddrInfoFromP2pAddr(a)
		if err != nil || len(p.Addrs) == 0 {
			return l, fmt.Errorf("address %s: no peer ID, or nothing else", a)
		}
		if n := len(l.Peers); n > 0 && l.Peers[n-1].ID == p.ID {
			l.Peers[n-1].Addrs = append(l.Peers[n-1].Addrs, p.Addrs...)
			continue
		}
		l.Peers = append(l.Peers, *p)
	}
	return l, nil
}
