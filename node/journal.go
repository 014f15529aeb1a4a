package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/internal/lru"
	"peerd/node/admin"
	"peerd/node/events"
	"peerd/store"
	"peerd/store/warc"
)

// Bounds of a journal.
const (
	maxEvents     = 2000
	maxMoves      = 2000
	maxPages      = 1000
	maxSamples    = 24 * 12
	maxFits       = 20_000
	maxEventText  = 600 // bytes
	sampleEvery   = 5 * time.Minute
	presenceEvery = 5 * time.Second
)

// journal keeps a bounded part of what happened since the start of the process, for operators:
// the messages of the log, moves of subnets, the last pages, how well download times are predicted,
// and counters every five minutes. It is safe for concurrent use.
type journal struct {
	presence time.Duration // between two looks at which peers are there
	file     string        // see kept; "": nothing is

	mu      sync.Mutex
	events  ring[admin.Event]
	moves   ring[admin.Move] // without predictions
	pages   ring[admin.Page]
	stored  uint64 // pages
	samples ring[admin.Sample]
	fits    map[netip.Prefix]fit
	leaving *lru.Simple[string, string] // by subnet: why it is being handed over
}

func newJournal() *journal {
	return &journal{
		presence: presenceEvery,
		events:   ring[admin.Event]{max: maxEvents}, moves: ring[admin.Move]{max: maxMoves},
		pages: ring[admin.Page]{max: maxPages}, samples: ring[admin.Sample]{max: maxSamples},
		fits:    map[netip.Prefix]fit{},
		leaving: lru.NewSimple[string, string](maxMoves, nil),
	}
}

// ring keeps the last max values that were added.
type ring[T any] struct {
	max, next int
	vals      []T
}

func (r *ring[T]) add(v T) {
	if len(r.vals) < r.max {
		r.vals = append(r.vals, v)
		return
	}
	r.vals[r.next] = v
	r.next = (r.next + 1) % r.max
}

// list returns a copy, the oldest first.
func (r *ring[T]) list() []T {
	return append(append(make([]T, 0, len(r.vals)), r.vals[r.next:]...), r.vals[:r.next]...)
}

// reversed returns a copy, the latest first.
func (r *ring[T]) reversed() []T {
	all := r.list()
	slices.Reverse(all)
	return all
}

// fit holds moving averages of the pages of a subnet, in ms.
type fit struct {
	n                   int
	predicted, measured float64
}

// fitGain is the weight of a new page in a fit.
const fitGain = 0.1

// observe adds the time of a page.
func (j *journal) observe(p netip.Prefix, predicted, took time.Duration) {
	if predicted <= 0 || took <= 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f, known := j.fits[p]
	if !known && len(j.fits) >= maxFits {
		for other := range j.fits { // any: it is learned again
			delete(j.fits, other)
			break
		}
	}
	f.n++
	w := max(fitGain, 1/float64(f.n))
	f.predicted += w * (ms(predicted) - f.predicted)
	f.measured += w * (ms(took) - f.measured)
	j.fits[p] = f
}

func (j *journal) fit(p netip.Prefix) fit {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fits[p]
}

// addPage adds a page that was stored.
func (j *journal) addPage(p store.Page) {
	v := pageView(p)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stored++
	v.Seq = j.stored
	j.pages.add(v)
}

// pageView returns a page as the admin API shows it.
func pageView(p store.Page) admin.Page {
	return admin.Page{
		URL: string(p.URL), Status: p.Status, Outcome: p.Outcome.String(), Bytes: p.Bytes,
		ContentType: p.ContentType, FetchedAt: p.FetchedAt, TookMs: ms(p.Timing.Total()),
		Links: len(p.Links), Estimation: p.Estimation, Title: clipText(p.Title, 200),
	}
}

// kinds maps messages of the log about the ownership of subnets to what they mean. A test checks
// that each of them is logged.
var kinds = map[string]admin.EventKind{
	"claimed subnet":                       admin.EventGained,
	"received subnet":                      admin.EventGained,
	"took over subnet":                     admin.EventGained,
	"recreated subnet of dead owner":       admin.EventGained,
	"reclaimed subnet from lost successor": admin.EventGained,
	"handed over subnet":                   admin.EventLost,
	"handed lost subnet to replica":        admin.EventLost,
	"yielded to better lease":              admin.EventLost,
}

// startedHandover begins the messages that say why a subnet leaves.
const startedHandover = "started handover: "

func kindOf(message string) admin.EventKind {
	if strings.HasPrefix(message, startedHandover) {
		return admin.EventLeaving
	}
	if k, ok := kinds[message]; ok {
		return k
	}
	return admin.EventOther
}

// add adds an event, and the move that it describes.
func (j *journal) add(e admin.Event, message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq = 1
	if n := len(j.events.vals); n > 0 {
		e.Seq = j.events.vals[(j.events.next+n-1)%n].Seq + 1
	}
	j.events.add(e)
	switch e.Kind {
	case admin.EventLeaving:
		j.leaving.Add(e.Subnet, strings.TrimPrefix(e.Text, startedHandover))
	case admin.EventGained, admin.EventLost:
		why := message
		if reason, ok := j.leaving.Peek(e.Subnet); ok && e.Kind == admin.EventLost {
			why += ": " + reason
		}
		j.leaving.Remove(e.Subnet)
		j.moves.add(admin.Move{Seq: e.Seq, At: e.At, Subnet: e.Subnet, Kind: e.Kind, Peer: e.Peer,
			Why: why})
	}
}

// observingHandler is a log handler that adds messages of level INFO or more to the journal and
// the event log, either of which may be nil, and passes on what next wants.
type observingHandler struct {
	j     *journal
	log   *events.Log
	next  slog.Handler
	attrs []slog.Attr
}

func (h observingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

func (h observingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h observingHandler) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}

func (h observingHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		if h.j != nil {
			h.j.add(eventOf(r, h.attrs), r.Message)
		}
		if h.log != nil {
			h.log.Add(messageOf(r, h.attrs))
		}
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// eventOf returns a message of the log as an event without a number.
func eventOf(r slog.Record, attrs []slog.Attr) admin.Event {
	e := admin.Event{At: r.Time, Level: r.Level.String(), Kind: kindOf(r.Message)}
	var details []string
	e.Subnet, e.Peer = eachDetail(r, attrs, func(key, text string) {
		details = append(details, key+" "+text)
	})
	if e.Text = r.Message; len(details) > 0 {
		e.Text += " (" + strings.Join(details, ", ") + ")"
	}
	e.Text = clipText(e.Text, maxEventText)
	return e
}

// eachDetail calls add with all attributes of a message but its subnet, and returns that, and the
// peer that it is about.
func eachDetail(
	r slog.Record, attrs []slog.Attr, add func(key, text string),
) (subnet, peer string) {
	one := func(a slog.Attr) bool {
		text := clipText(a.Value.Resolve().String(), maxEventText)
		switch a.Key {
		case "subnet":
			subnet = text
			return true
		case "peer", "to", "from", "owner":
			peer = text
		}
		add(a.Key, text)
		return true
	}
	for _, a := range attrs {
		one(a)
	}
	r.Attrs(one)
	return subnet, peer
}

// clipText returns at most n bytes of s as valid UTF-8.
func clipText(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// runJournal records the counters every five minutes, and which peers appear and disappear, until
// ctx ends.
func (n *Node) runJournal(ctx context.Context) error {
	known := map[string]bool{}
	next := time.Now()
	for {
		if now := time.Now(); !now.Before(next) {
			n.journal.sample(n.counters(now))
			next = now.Add(sampleEvery)
			n.saveJournal()
		}
		known = n.observePresence(known)
		if backoff.Sleep(ctx, n.journal.presence) != nil {
			n.saveJournal()
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
}

// saveJournal writes what is kept. Nothing depends on it, so that errors are only logged.
func (n *Node) saveJournal() {
	if n.journal.file == "" {
		return
	}
	if err := n.journal.save(n.journal.file); err != nil {
		n.log.Debug("failed to save the journal", "err", err)
	}
}

func (j *journal) sample(s admin.Sample) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.samples.add(s)
}

// counters returns the current state of the counters.
func (n *Node) counters(now time.Time) admin.Sample {
	c := n.db.Counters()
	free, err := warc.FreeDisk(n.opts.Home.Dir)
	if err != nil {
		n.log.Debug("failed to read free space", "err", err)
	}
	return admin.Sample{
		At: now, Pages: c.Pages, Fetches: c.Fetches, Served: c.EstimationsServed, Bytes: c.Bytes,
		Free: free, Pending: n.frontier.Stats().Pending,
	}
}

// observePresence adds an event for each peer that has joined the directory or left it since known.
// It returns the peers that are there.
func (n *Node) observePresence(known map[string]bool) map[string]bool {
	now, joined, left := map[string]bool{}, 0, 0
	event := func(who, text string, count *int) {
		if *count++; *count <= maxPresenceEvents {
			n.journal.add(admin.Event{At: time.Now(), Level: "INFO", Kind: admin.EventPeer,
				Text: text, Peer: who}, text)
		}
	}
	for _, b := range n.peers.Directory().All() {
		who := b.Peer.String()
		now[who] = true
		if !known[who] {
			event(who, "peer joined", &joined)
		}
	}
	for who := range known {
		if !now[who] {
			event(who, "peer left, or is suspected to have failed", &left)
		}
	}
	if hidden := max(0, joined-maxPresenceEvents) + max(0, left-maxPresenceEvents); hidden > 0 {
		n.journal.add(admin.Event{At: time.Now(), Level: "INFO", Kind: admin.EventPeer,
			Text: fmt.Sprintf("%d more peers joined or left", hidden)}, "")
	}
	return now
}

// maxPresenceEvents bounds the events about peers that joined, and those that left, at a time.
const maxPresenceEvents = 20
