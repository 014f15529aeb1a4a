package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// An endless is a web with sites that never run out of pages. Page k links to pages
// 2k+1 and 2k+2 of its site, to which no earlier page links, to three pages that are
// known by then, and to one of another site. So each fetch adds about one URL to the
// queue, and at least half of the links are known, as in the real web.
type endless struct {
	sites     int
	port      int
	listeners []net.Listener
}

// siteAddr returns the address of a site. Each site has a /24 of its own, so that each
// is a subnet to claim.
func siteAddr(site int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 92 + byte(site>>8), byte(site), 10})
}

// maxSites keeps the addresses of sites below 127.128.0.0.
const maxSites = 8192

func siteHost(site int) string { return "s" + strconv.Itoa(site) + ".soak.test" }

func pageURL(site, port int, k uint64) string {
	return fmt.Sprintf("http://%s:%d/p/%d", siteHost(site), port, k)
}

// listen opens all sites on one free port.
func listen(sites int) (*endless, error) {
	e := &endless{sites: sites}
	for i := range sites {
		ln, err := net.Listen("tcp", net.JoinHostPort(siteAddr(i).String(), strconv.Itoa(e.port)))
		if err != nil {
			e.close()
			return nil, err
		}
		e.listeners = append(e.listeners, ln)
		e.port = ln.Addr().(*net.TCPAddr).Port
	}
	return e, nil
}

func (e *endless) close() {
	for _, ln := range e.listeners {
		ln.Close()
	}
}

// serve serves all sites until ctx ends.
func (e *endless) serve(ctx context.Context) error {
	srv := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	var g errgroup.Group
	for _, ln := range e.listeners {
		g.Go(func() error {
			if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	<-ctx.Done()
	return errors.Join(srv.Close(), g.Wait())
}

// ServeHTTP serves the page that the Host header and the path of r name.
func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var site int
	if _, err := fmt.Sscanf(r.Host, "s%d.soak.test", &site); err != nil || site < 0 ||
		site >= e.sites {
		http.Error(w, "no such site", http.StatusMisdirectedRequest)
		return
	}
	k, err := strconv.ParseUint(strings.TrimPrefix(r.URL.Path, "/p/"), 10, 62)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(e.page(site, k)) // fails if the client has disconnected
}

// paragraphs is the number of paragraphs of a page, which make about 8 kB.
const paragraphs = 40

// page returns page k of a site.
func (e *endless) page(site int, k uint64) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><html><head><title>Page %d of %s</title></head><body>\n", k,
		siteHost(site))
	for i, to := range []uint64{2*k + 1, 2*k + 2, k / 2, k / 3, k / 7} {
		fmt.Fprintf(&b, "<p><a href=\"/p/%d\">link %d</a></p>\n", to, i)
	}
	other := (site + 1 + int(k%61)) % e.sites
	fmt.Fprintf(&b, "<p><a href=\"%s\">elsewhere</a></p>\n", pageURL(other, e.port, k/2))
	for i := range paragraphs {
		fmt.Fprintf(&b, "<div class=\"text\"><p>Paragraph %d of page %d says <em>nothing</em> "+
			"that %s has not said before, and at some length.</p>"+
			"<ul><li>first</li><li>second</li></ul></div>\n", i, k, siteHost(site))
	}
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}
