package node

import (
	"errors"
	"fmt"

	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/frontier"
	"peerd/node/admin"
)

// Robots implements admin.Node.
func (n *Node) Robots(host string, refresh bool) ([]admin.RobotsFile, error) {
	u, err := canon.Parse("http://" + host + "/")
	if err != nil || u.Origin()+"/" != string(u) {
		return nil, fmt.Errorf("%w: %q is not the name of a host", admin.ErrBadRequest, host)
	}
	files, err := n.crawler.Robots(u.Host(), refresh)
	if errors.Is(err, frontier.ErrUnknownHost) {
		return nil, fmt.Errorf("%w: this peer does not own the host %s", admin.ErrBadRequest,
			u.Host())
	}
	out := make([]admin.RobotsFile, len(files))
	for i, f := range files {
		out[i] = robotsView(f)
	}
	return out, err
}

// robotsView returns a robots.txt as the admin API shows it.
func robotsView(f crawl.RobotsFile) admin.RobotsFile {
	v := admin.RobotsFile{
		Origin: f.Origin, State: admin.RobotsKnown, Status: f.Status, Bytes: len(f.Body),
		Fetched: f.Fetched, Expires: f.Expires,
	}
	since := f.UnreachableSince
	if !since.IsZero() {
		v.UnreachableSince = &since
	}
	switch {
	case f.Unreachable:
		v.State = admin.RobotsUnreachable
	case !since.IsZero() && f.Status != 0:
		v.State = admin.RobotsStale
	case f.Status < 200 || f.Status > 299:
		v.State = admin.RobotsAbsent
	}
	return v
}
