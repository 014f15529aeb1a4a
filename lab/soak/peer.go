package soak

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime/metrics"
	"time"

	"peerd/node"
	"peerd/node/config"
)

// peerFigures are the measurements that the peer reports.
type peerFigures struct {
	Heap       uint64 `json:"heap"` // bytes of live objects and of dead ones not yet swept
	Goroutines uint64 `json:"goroutines"`
	Pages      int64  `json:"pages"`
	Queued     int64  `json:"queued"`
	Subnets    int    `json:"subnets"`
	Failed     int64  `json:"failed"`
}

// peerOptions are the options of the child process.
type peerOptions struct {
	Home         string
	Sites, Port  int
	Delay, Every time.Duration
	Profile      Profiles
}

// runPeer is a child process: it runs one real peer and periodically prints a line of
// JSON.
func runPeer(ctx context.Context, options string, stdout io.Writer) error {
	var o peerOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	n, err := newPeer(o)
	if err != nil {
		return err
	}
	stop, err := o.Profile.start()
	if err != nil {
		return errors.Join(err, n.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	printed := make(chan error, 1)
	go func() {
		defer cancel() // the parent does not read any more
		printed <- printFigures(ctx, n, o.Every, stdout)
	}()
	err = n.Run(ctx)
	cancel()
	return errors.Join(err, <-printed, stop())
}

// newPeer returns a peer as users run it, alone in its network, that claims subnets as
// soon as it discovers them.
func newPeer(o peerOptions) (*node.Node, error) {
	home, err := config.Init(o.Home)
	if err != nil && !errors.Is(err, config.ErrExists) {
		return nil, err
	}
	home.Dir = o.Home
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.Crawl.MinDelay = config.Duration{Duration: o.Delay}
	c.Crawl.NetworkRequests, c.Crawl.NetworkRate = 0, 0 // all sites are in a few networks
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.Resolve = map[string][]netip.Addr{}
	c.Overlay.UnclaimedURLs, c.Overlay.UnclaimedAge = 1, config.Duration{}
	p := config.DefaultProfile()
	p.Name = "soak"
	for i := range o.Sites {
		c.Crawl.Resolve[siteHost(i)] = []netip.Addr{siteAddr(i)}
		p.Seeds = append(p.Seeds, pageURL(i, o.Port, 0))
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return node.New(node.Options{
		Home: home, Config: c, Profile: p, UserAgent: config.UserAgent("https://example.org/soak"),
		Logger: log,
	})
}

// printFigures prints a line of measurements now and at each interval until ctx ends.
func printFigures(ctx context.Context, n *node.Node, every time.Duration, out io.Writer) error {
	enc := json.NewEncoder(out)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := enc.Encode(readFigures(n)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func readFigures(n *node.Node) peerFigures {
	m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(m)
	s := n.Status()
	return peerFigures{
		Heap: m[0].Value.Uint64(), Goroutines: m[1].Value.Uint64(), Pages: s.PagesFetched,
		Queued:  s.Frontier.Pending + s.Frontier.Unclaimed + s.OutboxURLs,
		Subnets: s.SubnetsOwned, Failed: s.Failed,
	}
}
