package web

import (
	"net/url"
	"time"

	"peerd/node/emulate/wan"
)

// headerBytes is about what net/http puts before a body of ours.
const headerBytes = 160

// PageTime is how long a download of rawURL should take at the given place:
// one round trip to connect unless the connection is reused, one for request
// and answer (jitter at its mean), the server's delay, and the answer's bytes
// at the bandwidth of the pair. It is 0 for a URL of another web. The costs of
// the client itself and of a busy machine come on top.
func (w *Web) PageTime(place int, rawURL string, reused bool) time.Duration {
	return w.PageTimeIn(w.cfg.World, place, rawURL, reused)
}

// PageTimeIn is PageTime in another world with the same places: after a Change
// of the network.
func (w *Web) PageTimeIn(world *wan.World, place int, rawURL string, reused bool) time.Duration {
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
	link := world.Link(place, w.cfg.Place(s.id))
	trips := time.Duration(2)
	if reused {
		trips = 1
	}
	return trips*link.MeanRTT() + a.delay + link.Transfer(headerBytes+w.bodyBytes(s, a))
}

// bodyBytes is the length of an answer; a page that nobody asked for yet is
// rendered to know it.
func (w *Web) bodyBytes(s *site, a answer) int64 {
	if a.page < 0 {
		return int64(len(a.body))
	}
	if n := s.pages[a.page].bytes.Load(); n > 0 {
		return int64(n)
	}
	return int64(len(w.render(nil, s, a.page)))
}
