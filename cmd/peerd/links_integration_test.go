//go:build integration

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A page is found at all peers by a word that is only in links of other hosts to it, whoever has
// fetched it and them, and the more hosts link to it the earlier.
func TestSearchLinks(t *testing.T) {
	t.Parallel()
	const hosts = 9
	host := func(i int) string { return fmt.Sprintf("h%d.links.test", i) }
	url := func(i int) string { return fmt.Sprintf("http://%s:8144/", host(i)) }
	flags := []string{"--allow-net", "127.0.0.0/8", "--min-delay", "20ms", "--strategy", "hash"}
	var names []string
	for i := range hosts {
		l, err := net.Listen("tcp", fmt.Sprintf("127.144.%d.10:8144", i))
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, `<title>Host %d</title><p>The front page of host %d. `+
					`<a href="%s">next</a>`, i, i, url((i+1)%hosts))
				switch {
				case i > 2: // six hosts link to the first, one to the second
					fmt.Fprintf(w, `<a href="%s">A famous aardvark</a>`, url(0))
				case i == 2:
					fmt.Fprintf(w, `<a href="%s">Aardvarks</a>`, url(1))
				}
			})}
		go server.Serve(l) //nolint:errcheck // it is closed
		t.Cleanup(func() { server.Close() })
		flags = append(flags, "--resolve", fmt.Sprintf("%s=127.144.%d.10", host(i), i))
		names = append(names, host(i))
	}
	profile := filepath.Join(t.TempDir(), "net.toml")
	if err := os.WriteFile(profile, []byte("name = 'links'\n[scope]\nmode = 'hosts'\nhosts = ['"+
		strings.Join(names, "', '")+"']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ds []*daemon
	for i := range byte(3) {
		d := newDaemon(t, append(slices.Clone(flags), "--profile", profile, "--listen",
			freeAddr(t, 180+i))...)
		appendSettings(t, d.home, "[archive]\nenabled = true\n[search]\nenabled = true\n")
		ds = append(ds, d)
	}
	meet(t, ds)
	peerd(t, "seed", "--home", ds[0].home, url(0))
	for _, d := range ds {
		eventually(t, 2*time.Minute, "all pages are found", func() (bool, any) {
			time.Sleep(time.Second) // peers answer another one only so often
			r := searchFor(t, d.home, "front")
			return len(r.Hits) == hosts && r.Hits[0].URL == url(0), r
		})
		r := searchFor(t, d.home, "aardvark -famous")
		if got := urlsOf(r); !slices.Equal(got, []string{url(0), url(1)}) {
			t.Errorf("found %q, with %d answers", got, r.Answered)
		}
	}
	peers := map[string]bool{}
	for _, h := range searchFor(t, ds[0].home, "front").Hits {
		peers[h.Peer] = true
	}
	if len(peers) < 2 {
		t.Errorf("only %d peers have pages", len(peers))
	}
}
