package web

import (
	"net/url"
	"time"

	"peerd/lab/emulate/wan"
)

// headerBytes is the approximate size of the response headers.
const headerBytes = 160

// PageTime returns the expected time of a download of rawURL at the given place: one
// round trip to connect unless the connection is reused, one for request and answer (with
// mean jitter), the server's delay, and the transmission time of the answer. It is 0 for
// a URL of another web. It does not include delays of the client or of a busy machine.
func (w *Web) PageTime(place int, rawURL string, reused bool) time.Duration {
	return w.PageTimeIn(w.cfg.World, place, rawURL, reused)
}

// PageTimeIn is PageTime in another world with the same places, after Network.Change.
func (w *Web) PageTimeIn(world *wan.World, place int, rawURL string, reused bool) time.Duration {
	return w.pageTime(world, place, -1, rawURL, reused)
}

// PageTimeAt is PageTime from a server at a place, whichever the peer should have used.
func (w *Web) PageTimeAt(place, server int, rawURL string, reused bool) time.Duration {
	return w.pageTime(w.cfg.World, place, server, rawURL, reused)
}

// pageTime is PageTime in a world; server is the place of the server, or -1 for the one that the
// configuration says.
func (w *Web) pageTime(
	world *wan.World, place, server int, rawURL string, reused bool,
) time.Duration {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0
	}
	s, ok := w.lookup(u.Host)
	if !ok {
		return 0
	}
	if u.Path == "" {
		u.Path = "/"
	}
	a := w.answer(s, keyOf(u))
	if world == nil {
		return a.delay
	}
	if server < 0 {
		server = w.cfg.Place(place, s.id)
	}
	return LinkTime(world.Link(place, server), w.bodyBytes(s, a), reused) + a.delay
}

// LinkTime returns the expected time of a download of bytes over a link, without the server's
// delay.
func LinkTime(link wan.Link, bytes int64, reused bool) time.Duration {
	trips := 2
	if reused {
		trips = 1
	}
	return time.Duration(trips)*link.MeanRTT() + link.Transfer(headerBytes+bytes)
}

// bodyBytes returns the length of an answer; it renders a page that was not requested
// yet.
func (w *Web) bodyBytes(s *site, a answer) int64 {
	if a.page < 0 {
		return int64(len(a.body))
	}
	if n := s.pages[a.page].bytes.Load(); n > 0 {
		return int64(n)
	}
	return int64(len(w.render(nil, s, a.page)))
}
