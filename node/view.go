package node

import (
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store/warc"
)

// This file and placement.go implement the part of admin.Node that only informs.

// Events returns the events that are kept, the oldest first.
func (n *Node) Events() []admin.Event {
	return fromJournal(n, func(j *journal) []admin.Event { return j.events.list() })
}

// NewPages returns the last pages that this peer fetched, the oldest first.
func (n *Node) NewPages() []admin.Page {
	return fromJournal(n, func(j *journal) []admin.Page { return j.pages.list() })
}

// RecentPages returns the pages that this peer fetched last, the latest first.
func (n *Node) RecentPages() []admin.Page {
	return fromJournal(n, func(j *journal) []admin.Page { return j.pages.reversed() })
}

// History returns the counters of the last day, the oldest first.
func (n *Node) History() []admin.Sample {
	return fromJournal(n, func(j *journal) []admin.Sample { return j.samples.list() })
}

// fromJournal reads the journal; nil without one.
func fromJournal[T any](n *Node, read func(*journal) []T) []T {
	if n.journal == nil {
		return nil
	}
	n.journal.mu.Lock()
	defer n.journal.mu.Unlock()
	return read(n.journal)
}

// DenyList returns the rules of the deny list, and the opt-outs that this peer obeys.
func (n *Node) DenyList() (rules []admin.DenyRule, err error) {
	texts, err := Denied(n.opts.Home)
	for _, t := range texts {
		rules = append(rules, admin.DenyRule{Rule: t})
	}
	for _, o := range n.deny.OptOuts.All() {
		rules = append(rules, admin.DenyRule{Rule: o.Origin, OptOut: true, Until: &o.Until})
	}
	return rules, err
}

// leastObserved is the time without which no rate of growth is computed. maxForecast is how far
// ahead the disk's end is predicted.
const (
	leastObserved = 10 * time.Minute
	maxForecast   = 10 * 365 * 24 * time.Hour
)

// Disk returns the free space of the home, and when it will be used up.
func (n *Node) Disk() admin.Disk {
	now := time.Now()
	return diskOf(append(n.History(), n.counters(now)), int64(n.opts.Config.Crawl.MinFree), now)
}

// diskOf computes the rate of growth by the least squares of the samples, of which there is at
// least one.
func diskOf(samples []admin.Sample, minFree int64, now time.Time) admin.Disk {
	first, last := samples[0], samples[len(samples)-1]
	span := last.At.Sub(first.At)
	d := admin.Disk{Free: last.Free, MinFree: minFree, ObservedS: span.Seconds()}
	if span < leastObserved {
		return d
	}
	var sx, sy, sxx, sxy float64
	for _, s := range samples {
		x, y := s.At.Sub(first.At).Hours()/24, float64(s.Free-first.Free)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	k := float64(len(samples))
	if div := k*sxx - sx*sx; div > 0 {
		d.PerDay = -(k*sxy - sx*sy) / div
	}
	days := float64(max(last.Free-minFree, 0)) / d.PerDay
	if limit := maxForecast.Hours() / 24; d.PerDay > 0 && days < limit {
		at := now.Add(time.Duration(days * 24 * float64(time.Hour))).UTC()
		d.FullAt = &at
	}
	return d
}

// Limits returns what may limit this peer, and whether it does.
func (n *Node) Limits() []admin.Limit {
	now := time.Now()
	fr, c := n.frontier.Stats(), n.crawlSettings()
	traffic, why := n.trafficLimits(), n.obstacles(now)
	obstacle := func(name string, l admin.Limit) admin.Limit {
		l.Advice, l.Blocked = why[name], why[name] != ""
		l.Active = l.Blocked
		return l
	}
	fetched, _ := n.change(now, 24*time.Hour, func(s admin.Sample) int64 { return s.Fetches })
	all := []admin.Limit{
		obstacle("offline", admin.Limit{Name: "network"}),
		obstacle("witnesses", admin.Limit{Name: "witnesses"}),
		obstacle("hours", admin.Limit{Name: "working hours", Setting: "crawl.hours"}),
		obstacle("quota", admin.Limit{Name: "pages a day", Setting: "crawl.pages_per_day",
			Unit: "pages", Used: fetched, Max: float64(c.PagesPerDay)}),
		n.bandwidthLimit(now), traffic[0], traffic[1],
		n.diskLimit(), n.archiveLimit(), n.politenessLimit(),
		{Name: "workers", Setting: "crawl.fetch_workers", Unit: "requests",
			Used: float64(fr.InFlight), Max: float64(c.FetchWorkers)},
		{Name: "URLs for other peers", Unit: "URLs", Used: float64(n.outbox.Stats().Outbox),
			Max: maxPendingURLs, Active: n.outbox.OverLimit(), Blocked: n.outbox.OverLimit()},
	}
	workers := &all[len(all)-2]
	if wait := n.frontier.WorkerWait(); wait > time.Second {
		workers.Active = true
		workers.Advice = fmt.Sprintf("URLs wait %s for a worker; raise crawl.fetch_workers",
			wait.Round(100*time.Millisecond))
	}
	if pending := &all[len(all)-1]; pending.Active {
		pending.Advice = "their owners do not accept them; see the queue for the owners"
	}
	return all
}

func (n *Node) bandwidthLimit(now time.Time) admin.Limit {
	received, over := n.change(now, 2*sampleEvery, func(s admin.Sample) int64 { return s.Bytes })
	l := admin.Limit{Name: "bandwidth", Setting: "crawl.bandwidth", Unit: "bytes/s",
		Used: received / max(over.Seconds(), 1), Max: float64(n.crawlSettings().Bandwidth)}
	if n.untilOpen(now) == 0 && n.quota.Wait(now) > n.quota.RequestWait(now) {
		l.Active = true
		l.Advice = "requests wait for the bandwidth; raise crawl.bandwidth for more"
	}
	return l
}

// change returns by how much a counter increased in the last part of the history, which begins at
// most so long ago, and the length of that part.
func (n *Node) change(
	now time.Time, last time.Duration, counter func(admin.Sample) int64,
) (by float64, over time.Duration) {
	for _, s := range n.History() {
		if over = now.Sub(s.At); over <= last {
			return float64(counter(n.counters(now)) - counter(s)), over
		}
	}
	return 0, 0
}

func (n *Node) diskLimit() admin.Limit {
	free, _ := warc.FreeDisk(n.opts.Home.Dir) // 0 is reported as a full disk
	l := admin.Limit{Name: "free disk space", Setting: "crawl.min_free", Unit: "bytes",
		Used: float64(free), Max: float64(n.opts.Config.Crawl.MinFree), Least: true}
	if l.Used < l.Max {
		l.Active, l.Blocked = true, true
		l.Advice = "free space on the disk of " + n.opts.Home.Dir +
			"; the peer continues by itself, and has lost nothing"
	}
	return l
}

func (n *Node) archiveLimit() admin.Limit {
	l := admin.Limit{Name: "archive", Setting: "archive.quota", Unit: "bytes"}
	if n.archive == nil {
		return l
	}
	l.Used, l.Max = float64(n.archive.Stats().Bytes), float64(n.opts.Config.Archive.Quota)
	if l.Max > 0 && l.Used+float64(n.archiveReserve()) > l.Max {
		l.Active, l.Blocked = true, n.checkSpace() != nil
		l.Advice = "the archive is nearly full; move files away, or raise archive.quota"
	}
	return l
}

func (n *Node) politenessLimit() admin.Limit {
	ready, waiting := n.frontier.Servers()
	l := admin.Limit{Name: "politeness", Setting: "crawl.min_delay", Unit: "servers",
		Used: float64(waiting), Max: float64(ready + waiting)}
	if waiting > 0 && ready == 0 {
		l.Active = true
		l.Advice = "all servers with URLs are in the pause after a request; " +
			"only more servers make the peer faster"
	}
	return l
}

// Settings returns the settings in effect, in the order of the sections, without passwords.
func (n *Node) Settings() (all []admin.Setting) {
	c, usual := n.opts.Config, config.Default().Settings()
	c.Crawl, c.Traffic = n.crawlSettings(), *n.trafficConf.Load()
	for i, s := range c.Settings() {
		row := admin.Setting{Key: s.Key, Value: settingText(s.Value),
			Default: settingText(usual[i].Value)}
		row.Changed = row.Value != row.Default
		all = append(all, row)
	}
	return all
}

// settingText formats a value. It hides the passwords of URLs.
func settingText(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i] = settingText(v.Index(i).Interface())
		}
		return strings.Join(texts, " ")
	}
	text := fmt.Sprint(value)
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}

// earth returns where an address is on Earth; nil without a database, or if that does not know.
func (n *Node) earth(a netip.Addr) *admin.Earth {
	if n.geoDB == nil {
		return nil
	}
	lat, lon, ok := n.geoDB.Locate(a)
	if !ok {
		return nil
	}
	return &admin.Earth{Lat: lat, Lon: lon}
}

// Servers returns the decided subnets of all peers that this one knows of, by address.
func (n *Node) Servers() []admin.Site {
	all := []admin.Site{}
	self := n.net.Self().String()
	known := n.ownerMap.Known()
	for _, family := range []string{"0.0.0.0/0", "::/0"} {
		for d := range known.Within(netip.MustParsePrefix(family)) {
			if d.Proxy != nil {
				all = append(all, admin.Site{Subnet: d.Subnet.String(), Owner: d.Owner,
					Own: d.Owner == self, At: admin.Coordinate(d.Proxy.At),
					Earth: n.earth(d.Subnet.Addr())})
			}
		}
	}
	return all
}
