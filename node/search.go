package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
	local "peerd/node/search"
	"peerd/overlay/search"
	"peerd/store/index"
)

const (
	// searchTimeout bounds connecting to a peer and each step of a search.
	searchTimeout = 5 * time.Second
	// rankEvery is the time between two meetings at which peers exchange ranks, while they change.
	rankEvery = 3 * time.Second
)

// openSearch opens the index, if the settings say so, and the protocol, which every peer serves:
// one without an index says so.
func (n *Node) openSearch() (err error) {
	n.search = &search.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.Search(), URLs: urlChecker{n},
		Network: n.net.Names.Network(),
		Timeout: n.opts.scaled(searchTimeout), Logger: n.log,
		Peers: n.peers.Directory(),
	}
	n.parts = append(n.parts, func(ctx context.Context) error {
		return n.search.RunRanks(ctx, n.opts.scaled(rankEvery))
	})
	if !n.opts.indexes() {
		return nil
	}
	if n.index, err = index.Open(n.opts.Home.IndexDir()); err != nil {
		return err
	}
	n.search.Local = &search.Local{Index: n.index,
		Text: local.Texter(&n.archive.Reader, robotsAgent)}
	if n.opts.Config.Search.Ranks {
		n.search.Local.Ranks = &index.Ranks{}
	}
	n.parts = append(n.parts, n.indexer().Run)
	return nil
}

// indexer returns what adds the archived pages to the index.
func (n *Node) indexer() *local.Indexer {
	return &local.Indexer{Index: n.index, Archive: &n.archive.Reader, Agent: robotsAgent,
		Recent: n.recent, CheckSpace: n.checkSpace, Logger: n.log}
}

// finishIndex adds to the index what a one-shot crawl fetched last, because no peer will run with
// this home. What it does not add in finishIndexTime is added by "peerd index".
func (n *Node) finishIndex() {
	if n.index == nil || !n.opts.Alone {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishIndexTime)
	defer cancel()
	if _, err := n.indexer().CatchUp(ctx); err != nil {
		n.log.Warn("failed to index all pages; peerd index adds them", "err", err)
	}
}

// finishIndexTime is what an interrupted crawl may take for its index.
const finishIndexTime = 5 * time.Second

// Search searches the indexes of all peers.
func (n *Node) Search(
	ctx context.Context, query string, offset, limit int,
) (admin.SearchResult, error) {
	r, err := n.search.Search(ctx, query, offset, limit)
	return searchView(r, offset), badSearch(err)
}

// MaxHits is the number of hits of a query that can be seen.
const MaxHits = search.MaxResults

// badSearch marks the errors that are due to the request.
func badSearch(err error) error {
	if errors.Is(err, index.ErrQuery) || errors.Is(err, search.ErrRange) {
		return fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	}
	return err
}

func searchView(r search.Result, offset int) admin.SearchResult {
	v := admin.SearchResult{
		Offset: offset, Total: r.Total, Partial: r.Partial || r.Failed > 0,
		Answered: r.Answered, Copied: r.Copied, NoIndex: r.NoIndex, Failed: r.Failed,
		Hits: []admin.SearchHit{},
	}
	for _, h := range r.Hits {
		v.Hits = append(v.Hits, admin.SearchHit{
			URL: string(h.URL), Title: h.Title, Type: h.Type, Language: h.Language,
			FetchedAt: h.FetchedAt, Score: h.Score, Peer: h.Peer.String(), Snippet: h.Snippet.Text,
			Marks: append([][2]int{}, h.Snippet.Marks...),
		})
	}
	return v
}

// SearchHome searches the index of a home with which no peer runs.
func SearchHome(
	ctx context.Context, home config.Home, query string, offset, limit int,
) (admin.SearchResult, error) {
	if _, err := os.Stat(home.IndexDir()); errors.Is(err, os.ErrNotExist) {
		return admin.SearchResult{}, fmt.Errorf("%s: the home has no index; "+
			"run: peerd index --home DIR, or set search.enabled in config.toml", home.Dir)
	}
	archive, err := Archive(home)
	if err != nil {
		return admin.SearchResult{}, err
	}
	x, err := index.Open(home.IndexDir())
	if err != nil {
		return admin.SearchResult{}, err
	}
	ranks, err := homeRanks(home, x)
	if err != nil {
		return admin.SearchResult{}, errors.Join(err, x.Close())
	}
	r, err := (&search.Local{Index: x, Ranks: ranks, Text: local.Texter(archive, robotsAgent)}).
		Search(ctx, query, offset, limit)
	return searchView(r, offset), errors.Join(badSearch(err), x.Close())
}

// homeRanks returns the ranks in the index of a home; nil if its settings leave them out.
func homeRanks(home config.Home, x *index.Index) (*index.Ranks, error) {
	c, err := home.Load()
	if err != nil || !c.Search.Ranks {
		return nil, err
	}
	return x.Ranks()
}

// BuildIndex adds the archived pages of a home to its index and returns their number. The peer
// must not run. With again, it starts from an empty index. Progress may be nil.
func BuildIndex(
	ctx context.Context, home config.Home, again bool, log *slog.Logger, progress func(pages int),
) (pages int, err error) {
	archive, err := Archive(home)
	if err != nil {
		return 0, err
	}
	x, err := index.Open(home.IndexDir()) // also checks that no peer uses it
	if err == nil && again {
		if err = errors.Join(x.Close(), index.Remove(home.IndexDir())); err == nil {
			x, err = index.Open(home.IndexDir())
		}
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	return (&local.Indexer{Index: x, Archive: archive, Agent: robotsAgent, Logger: log,
		Progress: progress}).CatchUp(ctx)
}
