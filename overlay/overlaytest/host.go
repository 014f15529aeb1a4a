package overlaytest

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
)

// Host is HostOf with a random key.
func Host(t testing.TB) host.Host {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return HostOf(t, key)
}

// HostOf starts a host without resource limits that listens on a free loopback port: TCP, Noise
// and yamux. It is closed when the test ends; the test may close it earlier.
//
// It is made of its parts because the package of libp2p's options links every transport, which
// takes longer than most tests.
func HostOf(t testing.TB, key crypto.PrivKey) host.Host {
	t.Helper()
	h, err := newHost(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// newHost leaves open what it has opened if it fails, which ends the test.
func newHost(key crypto.PrivKey) (host.Host, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	known, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	err = errors.Join(known.AddPrivKey(id, key), known.AddPubKey(id, key.GetPublic()))
	if err != nil {
		return nil, err
	}
	bus := eventbus.NewBus()
	net, err := swarm.NewSwarm(id, known, bus)
	if err != nil {
		return nil, err
	}
	if err := listen(net, key); err != nil {
		return nil, err
	}
	h, err := basichost.NewHost(net, &basichost.HostOpts{EventBus: bus, EnablePing: true})
	if err != nil {
		return nil, err
	}
	h.Start()
	return h, nil
}

// listen opens a loopback port.
func listen(net *swarm.Swarm, key crypto.PrivKey) error {
	up, err := newUpgrader(key)
	if err != nil {
		return err
	}
	over, err := tcp.NewTCPTransport(up, nil, nil, tcp.DisableReuseport())
	if err != nil {
		return err
	}
	if err := net.AddTransport(over); err != nil {
		return err
	}
	return net.Listen(ma.StringCast("/ip4/127.0.0.1/tcp/0"))
}

// newUpgrader returns what encrypts and multiplexes connections.
func newUpgrader(key crypto.PrivKey) (transport.Upgrader, error) {
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	encrypt, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return nil, err
	}
	return upgrader.New([]sec.SecureTransport{encrypt}, muxers, nil, nil, nil)
}

// DialThroughRelays lets a host of Host or HostOf dial through relays.
func DialThroughRelays(t testing.TB, h host.Host) {
	t.Helper()
	up, err := newUpgrader(h.Peerstore().PrivKey(h.ID()))
	if err == nil {
		err = client.AddTransport(h, up)
	}
	if err != nil {
		t.Fatal(err)
	}
}
