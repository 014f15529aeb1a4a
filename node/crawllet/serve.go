// Package crawllet serves and fetches with crawllets on the command line. Package crawl/crawllet
// has the protocol.
//
// Files:
//
//	serve.go  Serve, for a web site
//	fetch.go  Fetch, for a crawler
//	save.go   where the pages are written
package crawllet

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl/crawllet"
	"peerd/node/httpserver"
)

// Main runs a crawllet and exits, if this program was started for that. It is called first in main.
func Main() { crawllet.Main() }

// Limits are those of a site.
type Limits = crawllet.Limits

// DefaultLimits are those of a site that sets none.
var DefaultLimits = crawllet.DefaultLimits

// DefaultTypes are the extensions of the files that crawllets read.
var DefaultTypes = crawllet.DefaultTypes

// ServeOptions are the options of Serve.
type ServeOptions struct {
	Root   string
	Prefix string // "" means the address of the listener
	Listen string // host:port
	Cache  string
	Robots string
	Types  []string
	Peers  []string // IDs of the peers that are accepted; none means any crawler
	Limits Limits
	Logger *slog.Logger
	// Ready is called with the policy's URL when requests are accepted. It may be nil.
	Ready func(policy string)
}

// Serve serves the crawllets of a site until ctx ends. It returns when all have ended.
func Serve(ctx context.Context, o ServeOptions) error {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	keys, err := peerKeys(o.Peers)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	here := "http://" + l.Addr().String()
	o.Prefix = cmp.Or(o.Prefix, here+"/")
	h, err := crawllet.New(crawllet.Config{
		Root: o.Root, Prefix: o.Prefix, Cache: o.Cache, Robots: o.Robots, Types: o.Types,
		Keys: keys, Limits: o.Limits, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	if o.Ready != nil {
		o.Ready(here + crawllet.Path)
	}
	// Crawllets end with the context of their requests.
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{Handler: h,
		BaseContext: func(net.Listener) context.Context { return requests }}
	return cmp.Or(httpserver.Serve(ctx, l, server, cut, o.Logger), ctx.Err())
}

// peerKeys returns the public keys of peer IDs; nil for none.
func peerKeys(ids []string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, s := range ids {
		id, err := peer.Decode(s)
		if err != nil {
			return nil, fmt.Errorf("peer %q: %w", s, err)
		}
		key, err := id.ExtractPublicKey()
		if err != nil {
			return nil, fmt.Errorf("peer %q: %w", s, err)
		}
		raw, err := key.Raw()
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return nil, errors.Join(fmt.Errorf("peer %q: not an Ed25519 key", s), err)
		}
		keys = append(keys, raw)
	}
	return keys, nil
}
