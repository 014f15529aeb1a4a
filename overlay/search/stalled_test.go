package search

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/overlaytest"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// stalled is a host with connections on which nothing happens.
type stalled struct {
	host.Host
	stream network.Stream // nil: none is opened
}

func (stalled) ID() peer.ID                                  { return "self" }
func (stalled) Peerstore() peerstore.Peerstore               { return noPeers{} }
func (stalled) Connect(context.Context, peer.AddrInfo) error { return nil }

func (h stalled) NewStream(
	ctx context.Context, _ peer.ID, _ ...protocol.ID,
) (network.Stream, error) {
	if h.stream != nil {
		return h.stream, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// noPeers is a peerstore without peers.
type noPeers struct{ peerstore.Peerstore }

func (noPeers) Get(peer.ID, string) (any, error) { return nil, errors.New("not known") }

// silence is a stream on which nothing comes until it is reset.
type silence struct {
	network.Stream
	reset func()
	over  <-chan struct{}
}

func newSilence() silence {
	over := make(chan struct{})
	return silence{reset: sync.OnceFunc(func() { close(over) }), over: over}
}

func (s silence) Conn() network.Conn             { return silentConn{} }
func (silence) SetReadDeadline(time.Time) error  { return nil }
func (silence) SetWriteDeadline(time.Time) error { return nil }
func (silence) Write(b []byte) (int, error)      { return len(b), nil }
func (s silence) Read([]byte) (int, error)       { <-s.over; return 0, io.ErrUnexpectedEOF }
func (s silence) Reset() error                   { s.reset(); return nil }

type silentConn struct{ network.Conn }

func (silentConn) RemotePeer() peer.ID { return "other" }

// A peer that opens no stream, or with a reply that is late however it comes, holds a search up for
// Timeout.
func TestStalledPeer(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"no stream": false, "no reply": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := stalled{}
				if stream {
					h.stream = newSilence()
				}
				s := &Service{Host: h, Timeout: time.Second,
					Peers: overlaytest.PeersFunc(func() []peer.AddrInfo {
						return []peer.AddrInfo{{ID: "other"}}
					})}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				r, err := s.Search(ctx, "apple", 0, 10)
				if took := time.Since(began); err != nil || r.Failed != 1 || took != s.Timeout {
					t.Errorf("%d failed, after %v, %v", r.Failed, took, err)
				}
			})
		})
	}
}
