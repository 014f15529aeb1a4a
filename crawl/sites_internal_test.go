package crawl

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"peerd/store"
)

// TestSampleFindsLies verifies that at most 1 % of the peers that lie about one page in ten get
// through 50 pages of which this peer has requested its own copy: of those that lie from the
// beginning, and of those that have begun to when they were trusted.
func TestSampleFindsLies(t *testing.T) {
	const trials, most = 1000, 50
	report := func(text uint64) store.FetchReport {
		return store.FetchReport{Outcome: store.OutcomeOK, Status: 200, Content: store.Content{
			Digest: store.Digest{byte(text)}, Fingerprint: text}}
	}
	truth, small, lie := report(1), report(3), report(^uint64(1))
	for _, honest := range []int{0, sampleFirst + 5} {
		rng := rand.New(rand.NewPCG(1, uint64(honest)))
		missed, believed := 0, 0
		for range trials {
			s := newSiteReports()
			key, now := siteKey{"peer", "a.test"}, time.Unix(1, 0)
			found := false
			for i, samples := 0, 0; samples < most && !found; i++ {
				u := store.URL(fmt.Sprintf("http://a.test/%d", i))
				said, lying := small, i >= honest && rng.Float64() < 0.1
				if lying {
					said = lie
				}
				if s.believes(key, store.Entry{URL: u}, rng.Float64(), now) {
					if lying && honest == 0 {
						believed++
					}
					continue
				}
				s.hold(u, "peer", said, now)
				_, _, twice, _ := s.compare(u, truth, now)
				if twice {
					_, _, _, _ = s.compare(u, truth, now)
				}
				if i >= honest {
					samples++
				}
				found = s.reporter(key).trust(now) == Liar
				if found != lying {
					t.Fatalf("page %d, a lie: %v, found out: %v", i, lying, found)
				}
			}
			if !found {
				missed++
			}
		}
		t.Logf("honest for %d pages: %d of %d were not found out", honest, missed, trials)
		if missed > trials/100 || believed > 0 {
			t.Errorf("honest for %d pages: %d of %d were not found out, and %d lies believed; "+
				"want 1 %% at most, and none", honest, missed, trials, believed)
		}
	}
}

// TestOldReport verifies that a page is not compared with a report from long ago: while a server
// was down, the page may have changed.
func TestOldReport(t *testing.T) {
	s, now := newSiteReports(), time.Unix(1, 0)
	const u store.URL = "http://a.test/"
	s.hold(u, "peer", store.FetchReport{Outcome: store.OutcomeOK}, now)
	if !s.waits(u, now.Add(claimFor)) || s.waits(u, now.Add(claimFor+1)) {
		t.Errorf("a report waits for another time than %v", claimFor)
	}
	if _, peer, twice, _ := s.compare(u, store.FetchReport{Status: 404}, now); peer != "" || twice {
		t.Error("an old report was compared")
	}
}
