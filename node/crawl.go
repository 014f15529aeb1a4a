package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"peerd/crawl"
	"peerd/internal/backoff"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

// CrawlOptions are the options of a one-shot crawl.
type CrawlOptions struct {
	Home     string // an existing home; "": a temporary one
	Seeds    []string
	MaxPages int64
	Scope    string // host, domain or any
	// Patience is how long a host may answer nothing, while the network is up, before its URLs
	// are given up; it replaces the setting. 0 means DefaultPatience.
	Patience time.Duration
	// Config holds the settings about web servers and the archive. The other settings have
	// no effect on a one-shot crawl. Start from config.Default.
	Config config.Config
	// Rules are the rules of a network; name, seeds and scope are ignored. Start from
	// config.DefaultProfile.
	Rules     config.Profile
	UserAgent string
	Progress  io.Writer // gets a line every few seconds; nil: none
	Logger    *slog.Logger
	// Emulation replaces the network. Nil is the real network.
	Emulation *Emulation
}

// Summary is the result of a crawl. Its counters cover all crawls with the same home.
type Summary struct {
	Pages int64 `json:"pages"`
	Bytes int64 `json:"bytes"`
	// GivenUp are the URLs that were given up and not fetched since, by outcome.
	GivenUp   []GivenUpGroup   `json:"given_up"`
	Dropped   int64            `json:"dropped"` // URLs beyond a limit, or of a crawler trap
	Left      int64            `json:"left"`    // URLs found and not fetched yet
	Hosts     int              `json:"hosts"`
	Took      time.Duration    `json:"-"`
	End       End              `json:"end"`               // why it ended; "" if it did not start
	ByOutcome map[string]int64 `json:"outcomes"`          // URLs, by that of their last fetch
	DroppedBy map[string]int64 `json:"dropped_by_reason"` // as in admin.Status
	MarkedBy  map[string]int64 `json:"marked"`            // pages, as in admin.Status
	Seeds     []SeedOutcome    `json:"seeds"`             // in the order of CrawlOptions.Seeds
}

// Failed returns the number of URLs in GivenUp: those that robots.txt forbids, and the others.
func (s Summary) Failed() (failed, denied int64) {
	for _, g := range s.GivenUp {
		if g.Outcome == store.OutcomeRobotsDenied.String() {
			denied += g.URLs
		} else {
			failed += g.URLs
		}
	}
	return failed, denied
}

// Answered returns the part of ByOutcome that servers have answered.
func (s Summary) Answered() map[string]int64 {
	all := map[string]int64{}
	for o := store.OutcomeNone; o.String() != "unknown"; o++ {
		if n := s.ByOutcome[o.String()]; n > 0 && o.Answered() {
			all[o.String()] = n
		}
	}
	return all
}

// An End is the reason why a crawl ended.
type End string

// The reasons why a crawl ends.
const (
	EndDone        End = "done"        // nothing is left
	EndMaxPages    End = "max_pages"   // CrawlOptions.MaxPages were fetched
	EndNoSpace     End = "no_space"    // the disk or the archive is full
	EndInterrupted End = "interrupted" // the context ended
	EndFailed      End = "failed"      // an error
)

// DefaultPatience is the patience of a one-shot crawl.
const DefaultPatience = 10 * time.Minute

// Crawl runs a network of one peer, which crawls from the seeds until nothing is left. When
// ctx ends first, it returns the summary so far and the error of ctx; the next Crawl with
// the same home continues. URLs that an earlier Crawl with the home has given up because their
// server could not be reached are tried again.
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
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
	cfg.Crawl.Patience = config.Duration{Duration: o.Patience}
	cfg.Overlay = config.Default().Overlay
	cfg.Overlay.UnclaimedURLs, cfg.Overlay.UnclaimedAge = 1, config.Duration{}
	n, err := New(Options{
		Home: home, Config: cfg, Profile: oneShotProfile(o), UserAgent: o.UserAgent,
		Logger: o.Logger, MaxPages: o.MaxPages, Alone: true, Emulation: o.Emulation,
	})
	if err != nil {
		return Summary{}, err
	}
	return n.crawlAll(ctx, o.Progress)
}

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
	if err == nil {
		_, err = n.crawler.Retry(ctx, crawl.Retried{Outcomes: connectivity})
	}
	if err == nil {
		err = n.refetchLost(ctx)
	}
	if err != nil {
		return Summary{}, errors.Join(err, n.close())
	}
	sum := Summary{GivenUp: []GivenUpGroup{}, Seeds: []SeedOutcome{}} // if the store cannot be read
	done := make(chan struct{})
	watch, stopWatch := context.WithCancel(ctx)
	go func() {
		defer close(done)
		n.watch(watch, progress)
		n.Stop()
	}()
	n.onClose = func() error { // the store is still open, and nothing else runs
		var err error
		sum, err = summarise(context.WithoutCancel(ctx), n.db)
		fwd, fr := n.outbox.Stats(), n.frontier.Stats()
		sum.Left = fr.Pending + int64(fr.InFlight) + fwd.Outbox + fwd.Unclaimed
		sum.Seeds = n.seedOutcomes(n.opts.Profile.Seeds)
		return err
	}
	err = n.Run(ctx)
	stopWatch()
	<-done
	sum.End = n.end(ctx, err)
	if why := n.checkSpace(); sum.End == EndNoSpace && why != nil {
		err = fmt.Errorf("crawl: %w", why)
	}
	sum.Took = time.Since(begin)
	return sum, cmp.Or(err, ctx.Err())
}

// end returns why the crawl ended after Run returned err.
func (n *Node) end(ctx context.Context, err error) End {
	switch {
	case errors.Is(err, crawl.ErrNoSpace):
		return EndNoSpace
	case ctx.Err() != nil:
		return EndInterrupted
	case err != nil:
		return EndFailed
	}
	select {
	case <-n.crawler.LimitReached():
		return EndMaxPages
	default:
		return EndDone
	}
}

// Progress of a one-shot crawl is written when it changes, but not more often than
// progressInterval, and after progressRepeat in any case.
const (
	progressInterval = 2 * time.Second
	progressRepeat   = 30 * time.Second
)

// watch returns when nothing is left, or ctx ends.
func (n *Node) watch(ctx context.Context, progress io.Writer) {
	last, reported := "", time.Now()
	for backoff.Sleep(ctx, 50*time.Millisecond) == nil && !n.Idle() {
		now := time.Now()
		if progress == nil || now.Sub(reported) < progressInterval {
			continue
		}
		if text := n.progress(now); text != last || now.Sub(reported) >= progressRepeat {
			last, reported = text, now
			fmt.Fprint(progress, text)
		}
	}
}

// progress describes a one-shot crawl under way: what is done, and what it waits for.
func (n *Node) progress(now time.Time) string {
	c, f, out := n.db.Counters(), n.frontier.Stats(), n.outbox.Stats()
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d queued, %s\n", count(c.Pages, "page"),
		f.Pending+out.Outbox+out.Unclaimed, count(int64(f.Hosts), "host"))
	for _, why := range n.blocked(now, false) {
		fmt.Fprintf(&b, "blocked: %s\n", why)
	}
	const most = 3
	hosts := 0
	_ = n.db.View(func(tx *store.Tx) error { // without hosts if the store is closed
		return tx.Hosts(func(h store.Host) error {
			if h.Queued == 0 || h.Health.Error == "" || h.Health.State == store.HostGivenUp {
				return nil
			}
			if hosts++; hosts <= most {
				fmt.Fprintf(&b, "waiting for %s until %s: %s\n", h.Name,
					h.Health.NextTry.Local().Format(time.TimeOnly), h.Health.Error)
			}
			return nil
		})
	})
	if hosts > most {
		fmt.Fprintf(&b, "waiting for %s\n", count(int64(hosts-most), "more host"))
	}
	return b.String()
}

// Idle reports whether this peer has no work left: no URL is queued, in flight, in the
// unclaimed queue or in the outbox, and no host moves.
func (n *Node) Idle() bool {
	moving := n.manager.MovingHosts() // also afterwards: a move may begin or end in between
	fwd, fr := n.outbox.Stats(), n.frontier.Stats()
	return fwd.Outbox == 0 && fwd.Unclaimed == 0 && fr.Pending == 0 && fr.InFlight == 0 &&
		moving == 0 && n.manager.MovingHosts() == 0
}

// summarise reads the totals of a store.
func summarise(ctx context.Context, db *store.DB) (Summary, error) {
	c := db.Counters()
	s := Summary{
		Pages: c.Pages, Bytes: c.Bytes, Dropped: c.Dropped, ByOutcome: map[string]int64{},
	}
	s.DroppedBy, s.MarkedBy = splitReasons(c.Dropped, db.NamedCounters())
	var err error
	if s.GivenUp, err = groupGivenUp(ctx, db); err != nil {
		return s, err
	}
	err = db.View(func(tx *store.Tx) error {
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

// Links yields the pages in a home while no peer runs with it, or those behind the page of a URL.
func Links(
	ctx context.Context, home config.Home, after string, yield func(admin.Link) error,
) error {
	return withStore(home, func(db *store.DB) error { return eachLink(ctx, db, after, yield) })
}

// count formats a number of things.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
