package sitepage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"peerd/crawl/ping"
	"peerd/store"
)

// pingOne takes a ping of one page, by IndexNow (https://www.indexnow.org/documentation).
func (s *Server) pingOne(w http.ResponseWriter, r *http.Request) {
	notices, err := ping.FromQuery(r.URL.Query())
	s.ping(w, r, notices, err)
}

// pingMany takes a ping of several pages of a host.
func (s *Server) pingMany(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ping.MaxBody))
	if err != nil {
		http.Error(w, "the ping is too large, or was cut off", http.StatusBadRequest)
		return
	}
	notices, err := ping.FromJSON(body)
	s.ping(w, r, notices, err)
}

// ping passes a ping on, and answers with the status that IndexNow gives to it. Nothing is known of
// the key yet, so the best is 202.
func (s *Server) ping(w http.ResponseWriter, r *http.Request, notices []ping.Notice, err error) {
	if err == nil && !s.mayPing(r, len(notices), time.Now()) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many pages", http.StatusTooManyRequests)
		return
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		err = s.peer.Ping(ctx, notices)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case errors.Is(err, ping.ErrForm), errors.Is(err, ping.ErrKey):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, ping.ErrURL), errors.Is(err, ErrRefused):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		s.log.Warn("failed to take ping of web site", "err", err)
		http.Error(w, "this did not work, try again later", http.StatusServiceUnavailable)
	}
}

// mayPing counts the pages that a sender names, and reports whether they may be passed on.
func (s *Server) mayPing(r *http.Request, pages int, now time.Time) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	net := store.SubnetOf(from.Addr())
	sender, ok := s.senders.Get(net)
	if !ok {
		sender = rate.NewLimiter(senderPagesPerSecond, senderPageBurst)
		s.senders.Add(net, sender) // of two at once, one is forgotten
	}
	return sender.AllowN(now, pages) && s.pages.AllowN(now, pages) && s.pings.AllowN(now, 1)
}
