package node

import (
	"errors"
	"fmt"
	"net/netip"

	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/frontier"
	"peerd/node/admin"
)

// Robots implements admin.Node.
func (n *Node) Robots(host string, refresh bool) ([]admin.RobotsFile, error) {
	host, err := HostName(host)
	if err != nil {
		return nil, err
	}
	files, err := n.crawler.Robots(host, refresh)
	if errors.Is(err, frontier.ErrUnknownHost) {
		return nil, fmt.Errorf("%w: this peer does not own the host %s", admin.ErrBadRequest, host)
	}
	out := make([]admin.RobotsFile, len(files))
	for i, f := range files {
		out[i] = robotsView(f)
	}
	return out, err
}

// HostName returns the name of a host, or an address, as in canonical URLs. A port is left out. The
// error matches admin.ErrBadRequest.
func HostName(text string) (string, error) {
	name := text
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		name = "[" + text + "]"
	}
	u, err := canon.Parse("http://" + name + "/")
	if err != nil || u.Origin()+"/" != string(u) {
		return "", fmt.Errorf("%w: %.200q is not the name of a host", admin.ErrBadRequest, text)
	}
	return u.Host(), nil
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
