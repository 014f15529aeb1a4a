package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime/metrics"
	"time"

	"peerd/node"
	"peerd/node/config"
)

// inside is what the peer says of itself.
type inside struct {
	Heap       uint64 `json:"heap"` // bytes of live and dead objects
	Goroutines uint64 `json:"goroutines"`
	Pages      int64  `json:"pages"`
	Queued     int64  `json:"queued"`
	Subnets    int    `json:"subnets"`
	Failed     int64  `json:"failed"`
}

// peerOptions are the arguments of the child.
type peerOptions struct {
	home        string
	sites, port int
	delay       time.Duration
	every       time.Duration
	profile     profiles
}

func (o *peerOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.home, "home", "", "")
	fs.IntVar(&o.sites, "sites", 0, "")
	fs.IntVar(&o.port, "port", 0, "")
	fs.DurationVar(&o.delay, "min-delay", 0, "")
	fs.DurationVar(&o.every, "every", time.Second, "")
	o.profile.flags(fs)
}

// runPeer is the child: one real peer, and a line of JSON every now and then.
func runPeer(ctx context.Context, args []string, stdout io.Writer) error {
	var o peerOptions
	fs := flag.NewFlagSet("peer", flag.ContinueOnError)
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	n, err := newPeer(o)
	if err != nil {
		return err
	}
	stop, err := o.profile.start()
	if err != nil {
		return errors.Join(err, n.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan error, 1)
	go func() {
		defer cancel() // nobody listens any more
		told <- tell(ctx, n, o.every, stdout)
	}()
	err = n.Run(ctx)
	cancel()
	return errors.Join(err, <-told, stop())
}

// newPeer is a peer as users run it, alone in its network, that claims what it
// finds at once.
func newPeer(o peerOptions) (*node.Node, error) {
	home, err := config.Init(o.home)
	if err != nil && !errors.Is(err, config.ErrExists) {
		return nil, err
	}
	home.Dir = o.home
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.Crawl.MinDelay = config.Duration{Duration: o.delay}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.Resolve = map[string][]netip.Addr{}
	c.Overlay.NurseryURLs, c.Overlay.NurseryAge = 1, config.Duration{}
	p := config.DefaultProfile()
	p.Name = "soak"
	for i := range o.sites {
		c.Crawl.Resolve[siteHost(i)] = []netip.Addr{siteAddr(i)}
		p.Seeds = append(p.Seeds, pageURL(i, o.port, 0))
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return node.New(node.Options{
		Home: home, Config: c, Profile: p, UserAgent: config.UserAgent("https://example.org/soak"), Logger: log,
	})
}

// tell prints a line of figures at once and every so often until ctx ends.
func tell(ctx context.Context, n *node.Node, every time.Duration, out io.Writer) error {
	enc := json.NewEncoder(out)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := enc.Encode(look(n)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func look(n *node.Node) inside {
	m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"}}
	metrics.Read(m)
	s := n.Status()
	return inside{
		Heap: m[0].Value.Uint64(), Goroutines: m[1].Value.Uint64(), Pages: s.PagesFetched,
		Queued:  s.Frontier.Pending + s.Frontier.Nursery + s.OutboxURLs,
		Subnets: s.SubnetsOwned, Failed: s.Failed,
	}
}
