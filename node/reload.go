package node

import (
	"fmt"
	"slices"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
)

// liveKeys are the settings that Reload applies; all others need a restart.
var liveKeys = []string{"crawl.hours", "crawl.pages_per_day", "crawl.bandwidth",
	"traffic.bandwidth", "traffic.monthly_volume"}

// openSettings prepares Reload.
func (n *Node) openSettings() (err error) {
	n.crawlConf.Store(&n.opts.Config.Crawl)
	n.trafficConf.Store(&n.opts.Config.Traffic)
	if n.fileConf, err = n.opts.Home.Load(); err != nil {
		n.fileConf = n.opts.Config // a program that does not use config.toml
	}
	return nil
}

// crawlSettings returns the section [crawl] with the limits that are in effect now.
func (n *Node) crawlSettings() config.Crawl { return *n.crawlConf.Load() }

// Reload reads config.toml again and applies the settings that can change while the peer runs:
// liveKeys. It returns the keys that were applied, and those that have changed in the file since
// the peer started and need a restart. After an error nothing has changed. Options of the
// command line that name a live setting are replaced, too.
func (n *Node) Reload() (admin.Reloaded, error) {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	file, err := n.opts.Home.Load()
	if err != nil {
		return admin.Reloaded{}, fmt.Errorf("reload: %w", err)
	}
	var r admin.Reloaded
	was := n.fileConf.Settings()
	for i, s := range file.Settings() {
		text := fmt.Sprint(s.Value)
		switch {
		case text == fmt.Sprint(was[i].Value):
		case slices.Contains(liveKeys, s.Key):
			r.Applied = append(r.Applied, s.Key+" = "+text)
		default:
			r.Restart = append(r.Restart, s.Key)
		}
	}
	slices.Sort(r.Applied)
	slices.Sort(r.Restart)
	c := n.crawlSettings()
	c.Hours, c.PagesPerDay, c.Bandwidth = file.Crawl.Hours, file.Crawl.PagesPerDay,
		file.Crawl.Bandwidth
	if err := n.changeTraffic(file.Traffic); err != nil {
		return admin.Reloaded{}, fmt.Errorf("reload: %w", err)
	}
	if err := n.quota.Change(c.PagesPerDay, float64(c.Bandwidth), c.Hours.Length(),
		time.Now()); err != nil {
		return admin.Reloaded{}, fmt.Errorf("reload: %w", err)
	}
	n.crawlConf.Store(&c)
	n.frontier.FetchWaitChanged()
	f := n.fileConf
	f.Crawl.Hours, f.Crawl.PagesPerDay, f.Crawl.Bandwidth = c.Hours, c.PagesPerDay, c.Bandwidth
	f.Traffic = file.Traffic
	n.fileConf = f
	n.log.Info("reloaded config.toml", "applied", r.Applied, "needs_restart", r.Restart)
	return r, nil
}
