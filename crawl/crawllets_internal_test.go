package crawl

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"peerd/crawl/crawllet"
	"peerd/crawl/frontier"
	"peerd/crawl/quota"
	"peerd/store"
)

// The bytes of a body that is closed twice count once: the quota gives back what a request was
// charged in advance.
func TestCountedBodyClosedTwice(t *testing.T) {
	now := time.Unix(1e9, 0)
	q, err := quota.New(quota.Config{Bytes: 100}, now)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := q.Borrow(now)
	if err != nil {
		t.Fatal(err)
	}
	b := &countedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 10_000))),
		ticket: ticket}
	if _, err := io.Copy(io.Discard, b); err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	want := q.Wait(now)
	_ = b.Close()
	if got := q.Wait(now); got != want || want == 0 {
		t.Errorf("the wait for the next request is %v after the second Close, want %v", got, want)
	}
}

// The lists of a run stay within their bytes and their numbers of URLs, so that sites accept them.
func TestCrawlletInput(t *testing.T) {
	const prefix = "http://a.test/"
	for name, tt := range map[string]struct {
		urls, length int // of the queue and of the pages each
		seeds, known int // at most
	}{
		"numbers": {maxKnownURLs + 500, 40, maxSeedURLs, maxKnownURLs},
		"bytes":   {9000, 1000, maxCrawlletInput / 1001, maxCrawlletInput / 1001},
		"all":     {50, 1000, 50, 50},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open("", store.Options{InMemory: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			r := crawlletRun{c: &Crawler{cfg: Config{DB: db}}, job: frontier.Job{Host: "a.test"},
				site:   crawlletSite{policy: &crawllet.Policy{Prefix: prefix}},
				queued: map[store.URL]store.Entry{}, read: map[int]uint64{}}
			url := func(kind string, i int) store.URL {
				u := fmt.Sprintf("%s%s%06d", prefix, kind, i)
				return store.URL(u + strings.Repeat("x", tt.length-len(u)))
			}
			more := true
			for i := 0; i < tt.urls; i += maxPlans {
				err := db.Update(func(tx *store.Tx) error {
					for k := i; k < min(i+maxPlans, tt.urls); k++ {
						rec, err := store.Page{URL: url("known", k)}.Record()
						if err != nil {
							return err
						}
						if err := tx.PutRecord(rec); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := 0; i < tt.urls && more; i++ {
				key := binary.BigEndian.AppendUint64(make([]byte, 64), uint64(i))
				if more, err = r.note(store.Entry{URL: url("queue", i), Key: key}); err != nil {
					t.Fatal(err)
				}
			}
			known, err := r.known()
			if err != nil {
				t.Fatal(err)
			}
			seeds := r.seeds()
			if len(seeds) != tt.seeds || len(known) != tt.known {
				t.Errorf("%d seeds and %d known URLs, want %d and %d", len(seeds), len(known),
					tt.seeds, tt.known)
			}
			n := len(strings.Join(seeds, "\n")) + len(strings.Join(known, "\n")) + 3
			if n > 16<<20 {
				t.Errorf("the input has %d bytes, and sites accept 16 MiB", n)
			}
		})
	}
}
