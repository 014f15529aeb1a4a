package node

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl"
	"peerd/crawl/crawllet"
	pages "peerd/crawl/crawllet/page"
	"peerd/internal/bounded"
	"peerd/node/config"
	"peerd/overlay/plugin"
)

// pluginRound is the time between two rounds of questions to other peers, and pluginLook that
// between two looks at the folder.
const pluginRound, pluginLook = time.Minute, 2 * time.Second

// pluginFolder returns the folder of the plug-ins of a home.
func pluginFolder(home config.Home, c config.Plugins) plugin.Folder {
	f := plugin.Folder{Dir: filepath.Join(home.Dir, "plugins")}
	for _, text := range c.Publishers {
		if id, err := peer.Decode(text); err == nil { // the settings were checked
			f.Publishers = append(f.Publishers, id)
		}
	}
	return f
}

// openPlugins creates the protocol by which plug-ins spread, and what runs them.
func (n *Node) openPlugins() error {
	n.plugins.service = &plugin.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.Plugin(), Peers: n.peers.Directory(),
		Folder: pluginFolder(n.opts.Home, n.opts.Config.Plugins),
		Every:  n.opts.scaled(pluginRound), Timeout: time.Minute, Logger: n.log,
	}
	n.plugins.note = n.plugins.service.Folder.SwitchOff
	if len(n.plugins.service.Folder.Publishers) > 0 {
		n.parts = append(n.parts, n.runPlugins)
	}
	return nil
}

// plugins are those that run. process may be called concurrently with run.
type plugins struct {
	service *plugin.Service
	note    func(plugin.Signed, error) error // Folder.SwitchOff
	running atomic.Pointer[[]*runningPlugin]

	mu     sync.Mutex
	failed map[string]error // of which that is not noted yet, by publisher and digest
}

// key returns the key of a plug-in in failed.
func (*plugins) key(e plugin.Entry) string { return string(e.Publisher) + string(e.Digest) }

// isOff reports whether a plug-in has failed. If that could not be noted, as on a full disk, it is
// tried again.
func (p *plugins) isOff(e plugin.Entry) bool {
	p.mu.Lock()
	why := p.failed[p.key(e)]
	p.mu.Unlock()
	if why == nil {
		return e.Off != ""
	}
	if p.note(e.Signed, why) == nil {
		p.mu.Lock()
		delete(p.failed, p.key(e))
		p.mu.Unlock()
	}
	return true
}

// runningPlugin is a plug-in that has a module and has not failed.
type runningPlugin struct {
	entry plugin.Entry
	*crawllet.Plugin
	stop context.CancelFunc
	done chan struct{}
}

// process returns what the plug-ins find in a page.
func (p *plugins) process(pg pages.Page) (all []crawl.PluginResult) {
	list := p.running.Load()
	if list == nil {
		return nil
	}
	for _, r := range *list {
		found, err := r.Process(pg)
		if err == nil {
			all = append(all, crawl.PluginResult{Plugin: r.entry.Name, Result: found})
		}
	}
	return all
}

// runPlugins receives plug-ins from other peers, and runs those in the folder that the operator
// trusts.
func (n *Node) runPlugins(ctx context.Context) error {
	var g sync.WaitGroup
	defer g.Wait()
	g.Go(func() { _ = n.plugins.service.Run(ctx) }) // it returns nil
	for {
		n.followPlugins(ctx, &g)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pluginLook):
		}
	}
}

// followPlugins starts and stops plug-ins, so that those run that are in the folder.
func (n *Node) followPlugins(ctx context.Context, g *sync.WaitGroup) {
	p := &n.plugins
	all, err := p.service.Folder.List()
	if err != nil {
		n.log.Debug("failed to read some plug-ins", "err", err)
	}
	var old, now []*runningPlugin
	if list := p.running.Load(); list != nil {
		old = *list
	}
	for _, e := range all {
		if !e.Trusted || p.isOff(e) {
			continue
		}
		same := func(r *runningPlugin) bool {
			return r.entry.Publisher == e.Publisher && string(r.entry.Digest) == string(e.Digest)
		}
		if i := slices.IndexFunc(old, same); i >= 0 {
			now = append(now, old[i])
			continue
		}
		r, err := n.startPlugin(ctx, e, g)
		if err != nil {
			n.switchOff(ctx, e, err)
			continue
		}
		now = append(now, r)
	}
	p.running.Store(&now)
	for _, r := range old {
		if !slices.Contains(now, r) {
			r.stop()
			<-r.done
		}
	}
}

// startPlugin compiles and starts a plug-in.
func (n *Node) startPlugin(
	ctx context.Context, e plugin.Entry, g *sync.WaitGroup,
) (*runningPlugin, error) {
	module, err := n.plugins.service.Folder.Module(e)
	if err != nil {
		return nil, err
	}
	p, err := crawllet.OpenPlugin(ctx, filepath.Join(n.plugins.service.Folder.Dir, "cache"), module)
	if err != nil {
		return nil, err
	}
	n.log.Info("started plug-in", "plugin", e.Name, "version", e.Version, "publisher", e.Publisher)
	ctx, stop := context.WithCancel(ctx)
	r := &runningPlugin{entry: e, Plugin: p, stop: stop, done: make(chan struct{})}
	g.Go(func() {
		defer close(r.done)
		defer stop()
		if err := p.Run(ctx); err != nil {
			n.switchOff(ctx, e, err)
		}
	})
	return r, nil
}

// switchOff has a plug-in that failed run no more, also after a restart.
func (n *Node) switchOff(ctx context.Context, e plugin.Entry, why error) {
	if ctx.Err() != nil {
		return // the peer ends
	}
	n.log.Warn("switched off plug-in", "plugin", e.Name, "version", e.Version, "err", why)
	p := &n.plugins
	if err := p.note(e.Signed, why); err != nil {
		n.log.Error("failed to note that plug-in is off", "plugin", e.Name, "err", err)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed == nil {
			p.failed = map[string]error{}
		}
		p.failed[p.key(e)] = why
	}
}

// SignPlugin returns the package of a module, signed by the key of a home.
func SignPlugin(home config.Home, name string, version uint64, module io.Reader) ([]byte, error) {
	key, err := home.Key()
	if err != nil {
		return nil, err
	}
	code, err := io.ReadAll(io.LimitReader(module, plugin.MaxModule+1))
	if err != nil {
		return nil, err
	}
	return plugin.Sign(key, name, version, code)
}

// Plugin is a plug-in of a home.
type Plugin struct {
	Name      string `json:"name"`
	Version   uint64 `json:"version"`
	Publisher string `json:"publisher"`
	Digest    string `json:"digest"`
	// State is "on", "not trusted" or "off: " and why.
	State string `json:"state"`
}

// PublishPlugin puts the package in a file into a home, so that its peer runs it and passes it on.
func PublishPlugin(home config.Home, name string) (Plugin, error) {
	c, err := home.Load()
	if err != nil {
		return Plugin{}, err
	}
	pkg, err := bounded.ReadFile(name, 2*plugin.MaxModule)
	if err != nil {
		return Plugin{}, err
	}
	s, err := pluginFolder(home, c.Plugins).Put(pkg)
	return pluginOf(plugin.Entry{Signed: s, Trusted: true}), err
}

// Plugins returns the plug-ins in a home.
func Plugins(home config.Home) (all []Plugin, err error) {
	c, err := home.Load()
	if err != nil {
		return nil, err
	}
	list, err := pluginFolder(home, c.Plugins).List()
	for _, e := range list {
		all = append(all, pluginOf(e))
	}
	return all, err
}

func pluginOf(e plugin.Entry) Plugin {
	p := Plugin{Name: e.Name, Version: e.Version, Publisher: e.Publisher.String(),
		Digest: fmt.Sprintf("%x", e.Digest), State: "on"}
	switch {
	case !e.Trusted:
		p.State = "not trusted"
	case e.Off != "":
		p.State = "off: " + e.Off
	}
	return p
}
