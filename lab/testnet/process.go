package testnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
	"peerd/node"
)

// Emulation returns what makes a process the peer s.Peer of an emulated network. The peer listens
// on its address in the layout of s.
func Emulation(s emulate.Spec) (*node.Emulation, error) {
	l := s.Layout()
	w, err := web.New(s.Web(l))
	if err != nil {
		return nil, err
	}
	if s.Peer < 0 || s.Peer >= s.Peers {
		return nil, fmt.Errorf("testnet: peer %d is not among %d peers", s.Peer, s.Peers)
	}
	dial := l.Network().Dialer(l.PeerPlaces[s.Peer], l.PeerAddrs[s.Peer])
	return &node.Emulation{
		DialWeb:   dial,
		DialPeer:  func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer(dial), nil },
		Lookup:    lookup(w, l, s.Peer),
		TimeScale: s.TimeScale,
	}, nil
}

// write writes the audit and the log of the sites to a directory.
func write(w *web.Web, dir string) error {
	return errors.Join(
		writeJSON(filepath.Join(dir, "hits.jsonl"), func(enc *json.Encoder) (err error) {
			for _, h := range w.Log() {
				err = errors.Join(err, enc.Encode(h))
			}
			return err
		}),
		writeJSON(filepath.Join(dir, "audit.json"), func(enc *json.Encoder) error {
			return enc.Encode(w.Audit())
		}))
}

func writeJSON(name string, fill func(*json.Encoder) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(fill(json.NewEncoder(f)), f.Close())
}
