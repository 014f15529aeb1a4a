package crawl_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl"
	"peerd/crawl/robots"
	"peerd/store"
)

// An estimator that says that robots.txt forbids a URL does not make its owner drop it: the owner
// has read the file itself.
func TestEstimatorSaysForbidden(t *testing.T) {
	s := newSite(t, 33, 1)
	s.html("/", "/own")
	s.html("/own")
	o := newRig(t, "", 0, nil)
	o.own("a.test", s)
	excluded := false
	o.where = func(netip.Prefix) crawl.Dispatch {
		if excluded {
			return crawl.Dispatch{}
		}
		return crawl.Dispatch{Peer: "liar"}
	}
	o.remote = func(context.Context, string, store.FetchRequest) (store.FetchReport, error) {
		excluded = true
		return store.FetchReport{Outcome: store.OutcomeRobotsDenied}, nil
	}
	o.seed(s.url("a.test", "/"))
	o.crawl()
	if got := s.count(); got["/"] != 1 || got["/own"] != 1 {
		t.Errorf("requests %v, want one for each page", got)
	}
	if n := o.db.Counters().RobotsDenied; n != 0 {
		t.Errorf("%d URLs given up, want 0", n)
	}
}

// The robots.txt in a copy of another owner's subnet says nothing: that owner may have made it up.
func TestRobotsOfCopy(t *testing.T) {
	s := newSite(t, 33, 1)
	s.text("/robots.txt", "User-agent: *\nDisallow: /secret\n")
	s.html("/secret")
	e := newRig(t, "", 0, nil)
	e.resolves("a.test", s.addr.Addr())
	now := time.Now()
	raw, err := cbor.Marshal(robots.Result{Fetched: now, Expires: now.Add(time.Hour)})
	e.fatal(err)
	e.fatal(e.db.Update(func(tx *store.Tx) error {
		return tx.PutRobots(s.url("a.test", "/").Origin(), raw)
	}))
	rep, err := e.c.RemoteFetch(t.Context(), store.FetchRequest{URL: s.url("a.test", "/secret"),
		Addr: s.addr.Addr()}, nil)
	if err != nil || rep.Outcome != store.OutcomeRobotsDenied {
		t.Errorf("RemoteFetch() = %v, %v, want that it is forbidden", rep.Outcome, err)
	}
}
