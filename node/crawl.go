package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"peerd/crawl"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

// CrawlOptions say what a one-shot crawl does.
type CrawlOptions struct {
	Home     string // a home that exists; "" makes a temporary one
	Seeds    []string
	MaxPages int64
	Scope    string // host, domain or any
	// Config holds the settings about web servers and the archive; the others
	// have no meaning for a crawl alone. Start from config.Default.
	Config config.Config
	// Rules are a network's; name, seeds and scope are not read. Start from
	// config.DefaultProfile.
	Rules     config.Profile
	UserAgent string
	Progress  io.Writer // a line every few seconds; nil: none
	Logger    *slog.Logger
	// Emulation replaces the ways out to the network. Nil is the real one.
	Emulation *Emulation
}

// Summary is what came of a crawl; the counts go over the whole life of its
// home.
type Summary struct {
	Pages, Bytes, Failed, RobotsDenied int64
	Dropped                            int64 // URLs beyond a limit, or of a trap
	Left                               int64 // URLs found and not fetched yet
	Hosts                              int
	Took                               time.Duration
	End                                End              // why it ended; "" if it never began
	ByOutcome                          map[string]int64 // URLs, by how their fetch ended
	DroppedBy                          map[string]int64 // Dropped by reason, as admin.Status has it
	MarkedBy                           map[string]int64 // pages, likewise
}

// An End says why a crawl ended.
type End string

// The ends of a crawl.
const (
	EndDone        End = "done"        // nothing is left
	EndMaxPages    End = "max_pages"   // CrawlOptions.MaxPages were fetched
	EndNoRoom      End = "no_room"     // the disk or the archive is full
	EndInterrupted End = "interrupted" // the context ended
	EndFailed      End = "failed"      // an error
)

// Crawl is a network of one: it crawls from the seeds until nothing is left.
// When ctx ends first it returns the summary so far and ctx's error; with a
// home, the next Crawl goes on there.
func Crawl(ctx context.Context, o CrawlOptions) (Summary, error) {
	dir := o.Home
	if dir == "" {
		tmp, err := os.MkdirTemp("", "peerd-crawl-")
		if err != nil {
			return Summary{}, err
		}
		defer os.RemoveAll(tmp)
		dir = tmp
		if _, err := config.Init(dir); err != nil {
			return Summary{}, err
		}
	}
	home, err := config.Open(dir)
	if err != nil {
		return Summary{}, err
	}
	cfg := o.Config
	cfg.Overlay = config.Default().Overlay
	cfg.Overlay.NurseryURLs, cfg.Overlay.NurseryAge = 1, config.Duration{}
	n, err := New(Options{
		Home: home, Config: cfg, Profile: oneShotProfile(o), UserAgent: o.UserAgent, Logger: o.Logger,
		MaxPages: o.MaxPages, Alone: true, Emulation: o.Emulation,
	})
	if err != nil {
		return Summary{}, err
	}
	return n.crawlAll(ctx, o.Progress)
}

// oneShotProfile is the network that a one-shot crawl is alone in.
func oneShotProfile(o CrawlOptions) config.Profile {
	p := o.Rules
	p.Name, p.Seeds, p.Bootstrap, p.Scope = "one-shot", o.Seeds, nil, config.Scope{Mode: "any"}
	if mode, ok := map[string]string{"host": "hosts", "domain": "domains"}[o.Scope]; ok {
		p.Scope.Mode = mode
	}
	return p
}

// crawlAll runs the node until nothing is left.
func (n *Node) crawlAll(ctx context.Context, progress io.Writer) (Summary, error) {
	begin := time.Now()
	r, err := n.Seed(ctx, n.opts.Profile.Seeds)
	if err == nil && len(r.Invalid)+len(r.OutOfScope) > 0 {
		bad := append(r.Invalid, r.OutOfScope...)[0]
		err = fmt.Errorf("crawl: seed %q: %s", bad.URL, bad.Reason)
	}
	if err != nil {
		return Summary{}, errors.Join(err, n.close())
	}
	var sum Summary
	done := make(chan struct{})
	watch, stopWatch := context.WithCancel(ctx)
	go func() {
		defer close(done)
		n.watch(watch, progress)
		n.Stop()
	}()
	n.onClose = func() error { // the store is still open, and nothing works any more
		var err error
		sum, err = summarise(n.db)
		fwd, fr := n.forwarder.Stats(), n.frontier.Stats()
		sum.Left = fr.Pending + int64(fr.InFlight) + fwd.Outbox + fwd.Nursery
		return err
	}
	err = n.Run(ctx)
	stopWatch()
	<-done
	sum.End = n.end(ctx, err)
	if why := n.room(); sum.End == EndNoRoom && why != nil {
		err = fmt.Errorf("crawl: %w", why)
	}
	sum.Took = time.Since(begin)
	return sum, errors.Join(err, ctx.Err())
}

// end says why the crawl ended: Run returned err.
func (n *Node) end(ctx context.Context, err error) End {
	switch {
	case errors.Is(err, crawl.ErrFull):
		return EndNoRoom
	case ctx.Err() != nil:
		return EndInterrupted
	case err != nil:
		return EndFailed
	}
	select {
	case <-n.crawler.Full():
		return EndMaxPages
	default:
		return EndDone
	}
}

// watch returns when nothing is left, or ctx ends.
func (n *Node) watch(ctx context.Context, progress io.Writer) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if n.Idle() {
			return
		}
		if progress != nil && time.Since(said) > 2*time.Second {
			said = time.Now()
			c, f := n.db.Counters(), n.frontier.Stats()
			fmt.Fprintf(progress, "%d pages, %d queued, %d hosts\n", c.Pages, f.Pending, f.Hosts)
			for _, why := range n.blocked(said, false) {
				fmt.Fprintf(progress, "nothing is fetched: %s\n", why)
			}
		}
	}
}

// Idle says whether this peer has no work left: nothing queued, under way, in
// the nursery or in the outbox.
func (n *Node) Idle() bool {
	fwd, fr := n.forwarder.Stats(), n.frontier.Stats()
	return fwd.Outbox == 0 && fwd.Nursery == 0 && fr.Pending == 0 && fr.InFlight == 0
}

// summarise reads what a store holds.
func summarise(db *store.DB) (Summary, error) {
	c := db.Counters()
	s := Summary{
		Pages: c.Pages, Bytes: c.Bytes, Failed: c.Failed, RobotsDenied: c.RobotsDenied,
		Dropped: c.Dropped, ByOutcome: map[string]int64{},
	}
	s.DroppedBy, s.MarkedBy = splitReasons(c.Dropped, db.Named())
	err := db.View(func(tx *store.Tx) error {
		if err := tx.Hosts(func(store.Host) error { s.Hosts++; return nil }); err != nil {
			return err
		}
		return tx.Pages(func(p store.Page) error {
			s.ByOutcome[p.Outcome.String()]++
			return nil
		})
	})
	return s, err
}

// Links yields the pages in a home that no peer runs in.
func Links(ctx context.Context, home config.Home, yield func(admin.Link) error) error {
	if _, err := os.Stat(home.StoreDir()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // nothing was ever fetched
		}
		return err
	}
	db, err := store.Open(home.StoreDir(), store.Options{})
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w; wait for the end of the crawl there", err)
	}
	if err != nil {
		return err
	}
	return errors.Join(eachLink(ctx, db, yield), db.Close())
}
