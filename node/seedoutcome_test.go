package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"peerd/crawl/resolve"
	"peerd/node/config"
)

// A crawl reports for each seed whether it was fetched, and why not.
func TestSeedOutcomes(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "user-agent: *\ndisallow: /secret\n")
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "a page")
	})
	mux.Handle("/moved", http.RedirectHandler("/missing", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	c := config.Default()
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	c.Crawl.MinDelay = config.Duration{Duration: time.Millisecond}
	site := "http://site.test:" + at.Port()
	want := map[string]string{ // reasons
		site + "/page":                 "",
		site + "/missing":              "the server answered with status 404",
		site + "/moved":                "redirected to " + site + "/missing: the server answered",
		site + "/secret":               "robots.txt forbids it",
		"http://private.test/":         "10.1.2.3 is not a public address; to fetch",
		"http://unknown.test/":         "the host name does not resolve",
		site + "/missing?b=1#fragment": "the server answered with status 404",
	}
	var seeds []string
	for u := range want {
		seeds = append(seeds, u)
	}
	sum, err := Crawl(t.Context(), CrawlOptions{
		Seeds: seeds, Scope: "any", Config: c, Rules: config.DefaultProfile(),
		UserAgent: "peerd-test",
		Emulation: &Emulation{
			TimeScale: 0.01,
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				switch host {
				case "site.test":
					return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
				case "private.test":
					return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
				}
				return nil, resolve.ErrNotFound
			},
		},
	})
	if err != nil || sum.Pages != 1 || len(sum.Seeds) != len(want) {
		t.Errorf("Crawl() = %+v, %v, want one page and %d seeds", sum, err, len(want))
	}
	for i, o := range sum.Seeds {
		reason := want[o.URL]
		if o.URL != seeds[i] || o.Fetched != (reason == "") ||
			!strings.HasPrefix(o.Reason, reason) {
			t.Errorf("Seeds[%d] = %+v, want %s, reason %q", i, o, seeds[i], reason)
		}
	}
}

// A one-shot crawl looks for no other peer, also if config.toml of its home has mdns.
func TestCrawlWithoutMDNS(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := config.Default()
	c.MDNS = true
	_, err := Crawl(t.Context(), CrawlOptions{
		Seeds: []string{"http://unknown.test/"}, Config: c, Rules: config.DefaultProfile(),
		UserAgent: "peerd-test", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Emulation: &Emulation{
			TimeScale: 0.01,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return nil, resolve.ErrNotFound
			},
		},
	})
	if err != nil || strings.Contains(log.String(), "mDNS") {
		t.Errorf("Crawl() = %v, logged %s", err, log.String())
	}
}

// A one-shot crawl may have more seeds than a profile that peers send.
func TestCrawlOfManySeeds(t *testing.T) {
	t.Parallel()
	var seeds []string
	for i := range 150 {
		seeds = append(seeds, fmt.Sprintf("http://unknown.test/%d/%02000d", i, i))
	}
	sum, err := Crawl(t.Context(), CrawlOptions{
		Seeds: seeds, Config: config.Default(), Rules: config.DefaultProfile(),
		UserAgent: "peerd-test",
		Emulation: &Emulation{
			TimeScale: 0.01,
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return nil, resolve.ErrNotFound
			},
		},
	})
	if err != nil || len(sum.Seeds) != len(seeds) {
		t.Errorf("Crawl() = %d seeds, %v, want %d", len(sum.Seeds), err, len(seeds))
	}
}
