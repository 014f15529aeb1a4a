package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/frontier"
	"peerd/crawl/revisit"
	"peerd/crawl/robots"
	"peerd/store"
)

// everyTenSeconds visits each page every ten seconds.
var everyTenSeconds = revisit.Policy{Min: 10 * time.Second, Max: 10 * time.Second,
	Initial: 10 * time.Second, Confirm: 2}

// requestsAfter returns the number of requests for pages of a host after a time, and the time of
// the last one after it.
func (w *memoryWeb) requestsAfter(host string, from time.Time) (n int, last time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		if h.host == host && h.path != "/robots.txt" && h.start.After(from) {
			n++
			last = h.start.Sub(from)
		}
	}
	return n, last
}

// TestRobotsChangeIsObeyed verifies that a robots.txt that turns to Disallow is obeyed within the
// lifetime of the file, by visits of known pages and for everything queued, and that one that turns
// back is obeyed as well.
func TestRobotsChangeIsObeyed(t *testing.T) {
	for name, tc := range map[string]struct {
		field    string
		lifetime time.Duration
	}{
		"default":      {"", time.Hour},
		"a minute":     {"Cache-Control: public, max-age=60\r\n", time.Minute},
		"never stored": {"Cache-Control: no-store\r\n", time.Minute},
		"two fields": {"Cache-Control: public\r\nCache-Control: max-age=600\r\n",
			10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			denies := false
			w := &memoryWeb{
				robots: func(string, int) string {
					if denies {
						return response(http.StatusOK, tc.field, "User-agent: *\nDisallow: /\n")
					}
					return response(http.StatusNotFound, tc.field, "")
				},
			}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				r.ownMemoryHosts("a.test")
				time.Sleep(tc.lifetime / 2)
				change := time.Now()
				w.mu.Lock()
				denies = true
				w.mu.Unlock()
				for i := range 3 { // more than one second each: some wait at the change
					r.seed(store.URL(fmt.Sprintf("http://a.test/%d", i)))
				}
				time.Sleep(tc.lifetime)
				n, last := w.requestsAfter("a.test", change)
				if n == 0 || last > tc.lifetime {
					t.Errorf("%d requests after the change, the last after %v, want some within %v",
						n, last, tc.lifetime)
				}
				r.seed("http://a.test/new")
				time.Sleep(tc.lifetime + time.Minute)
				if m, _ := w.requestsAfter("a.test", change); m != n {
					t.Errorf("%d requests within another lifetime, want none", m-n)
				}

				change = time.Now()
				w.mu.Lock()
				denies = false
				w.mu.Unlock()
				time.Sleep(tc.lifetime + time.Minute)
				if m, _ := w.requestsAfter("a.test", change); m == 0 {
					t.Error("no visit after robots.txt was gone")
				}
			}, visiting(everyTenSeconds))
		})
	}
}

// TestRobotsRefresh verifies that a refresh is followed by a request before the next URL, that its
// result is obeyed, and that it keeps what is known of a file that cannot be fetched.
func TestRobotsRefresh(t *testing.T) {
	answer := response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
	w := &memoryWeb{robots: func(string, int) string { return answer }}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		set := func(a string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			answer = a
		}
		if _, err := r.c.Robots("a.test", true); !errors.Is(err, frontier.ErrUnknownHost) {
			t.Errorf("Robots() of an unknown host: error %v, want ErrUnknownHost", err)
		}
		r.ownMemoryHosts("a.test")
		time.Sleep(10 * time.Second)
		files, err := r.c.Robots("a.test", false)
		if err != nil || len(files) != 1 || files[0].Origin != "http://a.test" ||
			files[0].Status != http.StatusOK ||
			files[0].Expires.Sub(files[0].Fetched) != time.Hour {
			t.Errorf("Robots() = %+v, %v, want one file that is valid for an hour", files, err)
		}

		set(response(http.StatusOK, "", "User-agent: *\nDisallow: /\n"))
		files, err = r.c.Robots("a.test", true)
		if err != nil || len(files) != 1 || files[0].Expires.After(time.Now()) {
			t.Errorf("Robots() with refresh = %+v, %v, want one that has expired", files, err)
		}
		r.seed("http://a.test/1")
		time.Sleep(time.Minute)
		if n := len(w.times("a.test", "/robots.txt")); n != 2 {
			t.Errorf("%d requests for robots.txt, want 2", n)
		}
		if n := len(w.times("a.test", "/1")); n != 0 {
			t.Errorf("%d requests for a page that the new file disallows", n)
		}

		set(response(http.StatusServiceUnavailable, "", ""))
		_, err = r.c.Robots("a.test", true)
		r.fatal(err)
		r.seed("http://a.test/2")
		time.Sleep(time.Minute)
		if n := len(w.times("a.test", "/robots.txt")); n != 3 {
			t.Errorf("%d requests for robots.txt, want 3", n)
		}
		if n := len(w.times("a.test", "/2")); n != 0 {
			t.Errorf("%d requests for a page that the last known file disallows", n)
		}
	})
}

// TestRobotsRedirectIsShared verifies that a robots.txt that redirects to that of another origin of
// the host is requested once for both, whichever is first.
func TestRobotsRedirectIsShared(t *testing.T) {
	const plain, secure = "http://a.test", "http://a.test:8443" // stands for HTTPS
	for _, order := range [][]store.URL{
		{plain + "/", secure + "/"}, {secure + "/", plain + "/"},
	} {
		w := &memoryWeb{robots: func(host string, _ int) string {
			if host == "a.test" {
				return response(http.StatusMovedPermanently,
					"Location: "+secure+"/robots.txt\r\n", "")
			}
			return response(http.StatusOK, "Cache-Control: max-age=600\r\n",
				"User-agent: *\nDisallow: /no\n")
		}}
		inVirtualTime(t, w, func(t *testing.T, r *rig) {
			a := memoryAddr(0)
			r.fatal(r.fr.AddHost("a.test", store.SubnetOf(a), a, time.Time{}))
			for _, u := range order {
				r.seed(u, u+"no")
				time.Sleep(10 * time.Second)
			}
			for _, u := range order {
				host := string(u[len("http://") : len(u)-1])
				if n := len(w.times(host, "/robots.txt")); n != 1 {
					t.Errorf("%v: %d requests for robots.txt of %s, want 1", order, n, host)
				}
				ok, no := w.times(host, "/"), w.times(host, "/no")
				if len(ok) != 1 || len(no) != 0 {
					t.Errorf("%v: %d requests for / and %d for /no of %s, want 1 and 0",
						order, len(ok), len(no), host)
				}
			}
			var stored []robots.Result
			for _, u := range order {
				stored = append(stored, r.storedRobots(u.Origin()))
			}
			if !stored[0].Fetched.Equal(stored[1].Fetched) ||
				!slices.Equal(stored[0].Body, stored[1].Body) ||
				stored[1].Expires.Sub(stored[1].Fetched) != 10*time.Minute {
				t.Errorf("%v: stored %+v, want the same result twice", order, stored)
			}
		})
	}
}

// TestRobotsElsewhereIsShared verifies that hosts that redirect to the robots.txt of another host
// obey it, and cost that host one request in the lifetime of its file.
func TestRobotsElsewhereIsShared(t *testing.T) {
	const hosts = 20
	w := &memoryWeb{robots: func(host string, _ int) string {
		switch host {
		case "www.test":
			return response(http.StatusMovedPermanently,
				"Location: http://www.test:8443/robots.txt\r\n", "")
		case "www.test:8443":
			return response(http.StatusOK, "Cache-Control: max-age=600\r\n",
				"User-agent: *\nDisallow: /no\n")
		}
		return response(http.StatusMovedPermanently,
			"Location: http://www.test/robots.txt\r\n", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		visit := func(n int) {
			host := fmt.Sprintf("h%d.test", n)
			a := memoryAddr(n)
			r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
			r.seed(store.URL("http://"+host+"/"), store.URL("http://"+host+"/no"))
			time.Sleep(10 * time.Second)
			if ok, no := len(w.times(host, "/")), len(w.times(host, "/no")); ok != 1 || no != 0 {
				t.Errorf("%d requests for / and %d for /no of %s, want 1 and 0", ok, no, host)
			}
		}
		want := func(n int) {
			for _, host := range []string{"www.test", "www.test:8443"} {
				if got := len(w.times(host, "/robots.txt")); got != n {
					t.Errorf("%d requests for robots.txt of %s, want %d", got, host, n)
				}
			}
		}
		for n := range hosts {
			visit(n)
		}
		want(1)
		time.Sleep(10 * time.Minute)
		visit(hosts)
		want(2)
	}, func(c *crawl.Config) {
		c.Delegate = resolving{c.Delegate, func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{memoryAddr(hosts + 1)}, nil
		}}
	})
}

// TestRobotsElsewhereAfterManyRedirects verifies that a host that redirects too often to reach the
// robots.txt of another host does not have that file count as absent for others.
func TestRobotsElsewhereAfterManyRedirects(t *testing.T) {
	moved := func(to string) string {
		return response(http.StatusMovedPermanently, "Location: "+to+"\r\n", "")
	}
	const file = "http://www.test/robots.txt"
	w := &memoryWeb{
		robots: func(host string, _ int) string {
			switch host {
			case "long.test":
				return moved("/r1")
			case "www.test":
				return moved("http://www.test:8443/robots.txt")
			case "www.test:8443":
				return response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
			}
			return moved(file)
		},
		page: func(_, path string, _ int) string {
			next := map[string]string{"/r1": "/r2", "/r2": "/r3", "/r3": "/r4", "/r4": file}
			if to := next[path]; to != "" {
				return moved(to)
			}
			return response(http.StatusOK, "Content-Type: text/html\r\n", "")
		},
	}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		for i, host := range []string{"long.test", "a.test"} {
			a := memoryAddr(i)
			r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
			r.seed(store.URL("http://"+host+"/"), store.URL("http://"+host+"/no"))
			time.Sleep(time.Minute)
		}
		if n := len(w.times("www.test", "/robots.txt")); n != 2 {
			t.Errorf("%d requests for robots.txt of the other host, want 2", n)
		}
		if ok, no := w.times("a.test", "/"), w.times("a.test", "/no"); len(ok) != 1 || len(no) > 0 {
			t.Errorf("%d requests for / and %d for /no, want 1 and 0", len(ok), len(no))
		}
	}, func(c *crawl.Config) {
		c.Delegate = resolving{c.Delegate, func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{memoryAddr(9)}, nil
		}}
	})
}

// TestRobotsOfOwnHostIsUsed verifies that a host with a robots.txt that redirects to another host
// of this peer does not wait for that host if its file is known.
func TestRobotsOfOwnHostIsUsed(t *testing.T) {
	w := &memoryWeb{robots: func(host string, _ int) string {
		if host == "b.test" {
			return response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
		}
		return response(http.StatusMovedPermanently, "Location: http://b.test/robots.txt\r\n", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		own := func(n int, host string) {
			a := memoryAddr(n)
			r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
			r.seed(store.URL("http://"+host+"/"), store.URL("http://"+host+"/no"))
			time.Sleep(10 * time.Second)
		}
		own(1, "b.test")
		r.fr.DelayHost("b.test", time.Now().Add(time.Hour))
		own(2, "a.test")
		ok, no := len(w.times("a.test", "/")), len(w.times("a.test", "/no"))
		if ok != 1 || no != 0 {
			t.Errorf("%d requests for / and %d for /no, want 1 and 0", ok, no)
		}
		if n := len(w.times("b.test", "/robots.txt")); n != 1 {
			t.Errorf("%d requests for robots.txt of the other host, want 1", n)
		}
	}, func(c *crawl.Config) {
		c.Delegate = resolving{c.Delegate, func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{memoryAddr(1)}, nil
		}}
	})
}

// TestRobotsInSubnetKeepsClocks verifies that a redirect to a host in the same subnet waits for the
// clocks of that host and its address, and moves them, if its file is not known.
func TestRobotsInSubnetKeepsClocks(t *testing.T) {
	const wait = 20 * time.Second
	home := memoryAddr(0)
	for name, other := range map[string]netip.Addr{"same address": home, "other": home.Next()} {
		t.Run(name, func(t *testing.T) {
			w := &memoryWeb{robots: func(host string, _ int) string {
				if host == "b.test" {
					return response(http.StatusOK, "", "User-agent: *\nDisallow: /no\n")
				}
				return response(http.StatusMovedPermanently,
					"Location: http://b.test/x/robots.txt\r\n", "")
			}}
			inVirtualTime(t, w, func(t *testing.T, r *rig) {
				own := func(host string, a netip.Addr) {
					r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
				}
				own("a.test", home)
				own("b.test", other)
				r.fr.DelayHost("b.test", time.Now().Add(wait))
				began := time.Now()
				r.seed("http://a.test/", "http://b.test/")
				time.Sleep(time.Minute)
				times := slices.Concat(w.times("b.test", "/x/robots.txt"),
					w.times("b.test", "/robots.txt"), w.times("b.test", "/"))
				slices.SortFunc(times, time.Time.Compare)
				if len(times) != 3 || len(w.times("a.test", "/")) != 1 {
					t.Fatalf("requests at %v, want 3, and one for the page of a.test", times)
				}
				for i, at := range times {
					if at.Sub(began) < wait {
						t.Errorf("a request %v after the start, want at least %v", at.Sub(began),
							wait)
					}
					if i > 0 && at.Sub(times[i-1]) < time.Second {
						t.Errorf("%v between two requests, want a second", at.Sub(times[i-1]))
					}
				}
			}, func(c *crawl.Config) {
				c.RemoteTimeout = time.Minute
				c.Delegate = resolving{c.Delegate,
					func(context.Context, string) ([]netip.Addr, error) {
						return []netip.Addr{other}, nil
					}}
			})
		})
	}
}

// TestCrawlDelayConcernsHost verifies that a host with a long Crawl-delay, which is kept, holds up
// the other hosts at its address for a minute only.
func TestCrawlDelayConcernsHost(t *testing.T) {
	const pages, delay = 30, 30 * time.Minute
	w := &memoryWeb{robots: func(host string, _ int) string {
		if host == "slow.test" {
			return response(http.StatusOK, "Cache-Control: max-age=86400\r\n",
				fmt.Sprintf("User-agent: *\nCrawl-delay: %d\n", int(delay.Seconds())))
		}
		return response(http.StatusNotFound, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		began, a := time.Now(), memoryAddr(0)
		for _, host := range []string{"slow.test", "b.test"} {
			r.fatal(r.fr.AddHost(host, store.SubnetOf(a), a, time.Time{}))
			for i := range pages {
				r.seed(store.URL(fmt.Sprintf("http://%s/%d", host, i)))
			}
		}
		time.Sleep(10 * time.Minute)
		if n, _ := w.requestsAfter("b.test", began); n != pages {
			t.Errorf("%d pages of the other host after ten minutes, want %d", n, pages)
		}
		time.Sleep(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		var slow []time.Time
		for _, h := range w.hits {
			switch n := len(slow); {
			case h.host == "slow.test":
				if n > 0 && h.start.Sub(slow[n-1]) < delay {
					t.Errorf("%v between two requests to the slow host", h.start.Sub(slow[n-1]))
				}
				slow = append(slow, h.start)
			case n > 0 && h.start.Sub(slow[n-1]) < time.Minute:
				t.Errorf("a request %v after one to the slow host", h.start.Sub(slow[n-1]))
			}
		}
		if len(slow) != 3 {
			t.Errorf("%d requests to the slow host, want its robots.txt and two pages", len(slow))
		}
	})
}

// TestRobotsOfOneOrigin verifies that the URLs of an origin of which the robots.txt is unreachable
// do not delay those of another origin of the host, and are fetched when it is served.
func TestRobotsOfOneOrigin(t *testing.T) {
	served := false
	w := &memoryWeb{robots: func(host string, _ int) string {
		if host == "a.test:8080" && !served {
			return response(http.StatusBadGateway, "", "")
		}
		return response(http.StatusNotFound, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		a := memoryAddr(0)
		r.fatal(r.fr.AddHost("a.test", store.SubnetOf(a), a, time.Time{}))
		began := time.Now()
		const n = 20
		for i := range n {
			r.seed(store.URL(fmt.Sprintf("http://a.test:8080/%d", i)),
				store.URL(fmt.Sprintf("http://a.test/%d", i)))
		}
		time.Sleep(2 * time.Minute)
		if got, _ := w.requestsAfter("a.test", began); got != n {
			t.Errorf("%d requests to the origin that answers within two minutes, want %d", got, n)
		}
		time.Sleep(4 * time.Hour)
		files := len(w.times("a.test:8080", "/robots.txt"))
		if files < 5 || files > 40 {
			t.Errorf("%d requests for the unreachable file in four hours, want 5 to 40", files)
		}
		w.mu.Lock()
		served = true
		w.mu.Unlock()
		time.Sleep(3 * time.Hour)
		if got, _ := w.requestsAfter("a.test:8080", began); got != n {
			t.Errorf("%d requests to the other origin when it answers again, want %d", got, n)
		}
	}, func(c *crawl.Config) { c.TryDelay = time.Hour })
}

// TestRobotsRefreshEndsWait verifies that a refresh does not wait for the back-off of a file that
// throttles its requests.
func TestRobotsRefreshEndsWait(t *testing.T) {
	w := &memoryWeb{robots: func(_ string, nth int) string {
		if nth == 0 {
			return response(http.StatusTooManyRequests, "Retry-After: 36000\r\n", "")
		}
		return response(http.StatusNotFound, "", "")
	}}
	inVirtualTime(t, w, func(t *testing.T, r *rig) {
		r.ownMemoryHosts("a.test")
		time.Sleep(time.Hour)
		if n := len(w.times("a.test", "/robots.txt")); n != 1 {
			t.Errorf("%d requests for robots.txt within Retry-After, want 1", n)
		}
		_, err := r.c.Robots("a.test", true)
		r.fatal(err)
		time.Sleep(time.Minute)
		if n := len(w.times("a.test", "/")); n != 1 {
			t.Errorf("%d requests for the page a minute after the refresh, want 1", n)
		}
	})
}
