package node

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl"
	"peerd/crawl/localsite"
	"peerd/store"
)

// localRescan is the time between two comparisons of all files of a local site.
const localRescan = 10 * time.Minute

// openLocalSites creates the watchers of the sites in config.toml.
func (n *Node) openLocalSites() error {
	sites := n.opts.Config.LocalSites
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		w, err := localsite.New(localsite.Config{URL: store.URL(site),
			Root: n.opts.Home.Path(sites[site]), Announcer: announcer{n}, Rescan: localRescan,
			Logger: n.log})
		if err != nil {
			return err
		}
		n.parts = append(n.parts, w.Run)
	}
	return nil
}

var errNoFiles = errors.New("this peer reports no pages from files")

// siteFile returns the file of a page of a local site. It must have been announced, so that it is
// none that is left out.
func (n *Node) siteFile(u store.URL) (crawl.SiteFile, error) {
	if !n.opts.Config.ReportLocalSites {
		return crawl.SiteFile{}, errNoFiles
	}
	for site, root := range n.opts.Config.LocalSites {
		for _, name := range localsite.Files(store.URL(site), u) {
			err := n.db.View(func(tx *store.Tx) error {
				_, err := tx.Data(localSiteKey(store.URL(site), name))
				return err
			})
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return crawl.SiteFile{}, err
			}
			return readSiteFile(n.opts.Home.Path(root), name, n.opts.Profile.Limits.MaxBodyBytes)
		}
	}
	return crawl.SiteFile{}, fmt.Errorf("%s is not in a file of a local site", u)
}

func readSiteFile(dir, name string, limit int64) (crawl.SiteFile, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return crawl.SiteFile{}, err
	}
	defer root.Close()
	info, err := root.Lstat(name) // a FIFO must not be opened
	if err != nil {
		return crawl.SiteFile{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return crawl.SiteFile{}, fmt.Errorf("%s is no file of at most %d bytes", name, limit)
	}
	f, err := root.Open(name)
	if err != nil {
		return crawl.SiteFile{}, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, limit))
	return crawl.SiteFile{Body: body, Type: localsite.Type(name), Modified: info.ModTime()}, err
}

// announcer stores the versions of files, and routes the URLs of changed pages as if another
// page linked to them.
type announcer struct{ n *Node }

func localSiteKey(site store.URL, path string) string {
	return "localsite/" + string(site) + "\x00" + path
}

func (a announcer) Versions(site store.URL) (map[string]localsite.Version, error) {
	all := map[string]localsite.Version{}
	err := a.n.db.EachData(localSiteKey(site, ""), func(path string, val []byte) error {
		var v localsite.Version
		if err := cbor.Unmarshal(val, &v); err != nil {
			return fmt.Errorf("version of %q of %s: %w", path, site, err)
		}
		all[path] = v
		return nil
	})
	return all, err
}

func (a announcer) Announce(site store.URL, changes []localsite.Change) error {
	var found []store.Pending
	now := time.Now()
	for _, c := range changes {
		var kind store.Kind
		if c.Changed {
			kind = store.KindChanged
		}
		for _, u := range c.URLs {
			if err := a.n.scope.Allows(u, 0); err != nil {
				a.n.log.Debug("left out page of local site", "url", u, "err", err)
				continue
			}
			found = append(found, store.Pending{URL: u, Found: now, Kind: kind})
		}
	}
	if err := a.n.crawler.Route(found); err != nil {
		return err
	}
	err := a.n.db.Update(func(tx *store.Tx) error {
		for _, c := range changes {
			if err := putVersion(tx, localSiteKey(site, c.Path), c.Version); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.n.db.Sync()
}

// putVersion stores the version of a file; a file that does not exist has none.
func putVersion(tx *store.Tx, key string, v localsite.Version) error {
	if v == (localsite.Version{}) {
		return tx.DeleteData(key)
	}
	val, err := cbor.Marshal(v)
	if err != nil {
		return err
	}
	return tx.PutData(key, val)
}
