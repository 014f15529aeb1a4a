package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestExtraAddress(t *testing.T) {
	t.Parallel()
	cfg := testConfig(3, 30, 1)
	cfg.Bind = "127.0.0.1:0"
	w := serve(t, cfg)
	c := client(t, w)
	extra := "http://" + w.BindAddr().String()
	ask := func(host, path string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, extra+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp, b.Bytes()
	}
	_, direct := get(t, c, w.Sites()[1].URL)
	if _, body := ask("SITE-01.test.:99", "/"); !bytes.Equal(body, direct) {
		t.Error("additional address serves a different page")
	}
	if a := w.Audit(); a.Requests != 1 {
		t.Errorf("%d requests are in the log, want only the direct one", a.Requests)
	}
	_, log := ask("", "/-/log")
	var h Hit
	if err := json.Unmarshal(log, &h); err != nil || h.Host != "site-01.test" ||
		h.Path != "/" || h.Status != 200 || !h.Page || h.End.IsZero() {
		t.Errorf("log %s: %v", log, err)
	}
	_, list := ask("", "/-/sites")
	var sites []Site
	if err := json.Unmarshal(list, &sites); err != nil || len(sites) != 3 ||
		sites[0].URL != w.Seed() {
		t.Errorf("sites %s: %v", list, err)
	}
	if resp, _ := ask("", "/"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("no site and no log: %d", resp.StatusCode)
	}
	if resp, _ := ask("site-00.test", "/-/log"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the log as a page of a site: %d", resp.StatusCode)
	}
}

// Several processes with equal settings serve one web together.
func TestServeSomeSites(t *testing.T) {
	t.Parallel()
	all := testConfig(4, 80, 3)
	all.Port = freePort(t)
	var parts []*Web
	for part := range 2 {
		cfg := all
		cfg.Serve = func(site int) bool { return site%2 == part }
		parts = append(parts, serve(t, cfg))
	}
	c := client(t, parts[0])
	for u := range parts[0].Pages() {
		if resp, _ := get(t, c, u); resp.StatusCode != 200 {
			t.Errorf("%s: %d", u, resp.StatusCode)
		}
	}
	for u := range parts[1].Pages() {
		if resp, _ := get(t, c, u); resp.StatusCode != 200 {
			t.Errorf("%s: %d", u, resp.StatusCode)
		}
	}
	if n := parts[0].Audit().PagesFetched + parts[1].Audit().PagesFetched; n != 80 {
		t.Errorf("%d pages over both", n)
	}
	if a := parts[0].Audit(); a.Sites != 2 || a.PagesExpected != a.PagesFetched {
		t.Errorf("%+v", a)
	}
}

func freePort(t *testing.T) int {
	w, err := New(testConfig(1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Listen(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.Port()
}

func TestUnknownHostAndMethod(t *testing.T) {
	t.Parallel()
	w := serve(t, testConfig(1, 5, 1))
	c := client(t, w)
	addr := fmt.Sprintf("http://%v:%d/", w.Resolve()["site-00.test"][0], w.Port())
	if resp, _ := get(t, c, addr); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a host that is no site: %d", resp.StatusCode)
	}
	resp, err := c.Post(w.Seed(), "text/plain", strings.NewReader("x"))
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v", resp, err)
	}
	resp.Body.Close()
	resp, err = c.Head(w.Seed())
	if err != nil || resp.StatusCode != 200 || resp.ContentLength < minBytes {
		t.Errorf("HEAD: %v %v", resp, err)
	}
	resp.Body.Close()
	if a := w.Audit(); a.Fetches != 0 || a.Requests != 3 || w.Log()[0].Site != -1 {
		t.Errorf("%+v", a)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	w := serve(t, testConfig(3, 5, 1))
	cfg := testConfig(3, 5, 1)
	cfg.Port = w.Port()
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(context.Background()); err == nil {
		t.Error("second Listen on a used port succeeded, want an error")
	}
}

func TestPageTimeOfWhatIsNoPage(t *testing.T) {
	t.Parallel()
	cfg := testConfig(1, 6, 3)
	cfg.Delay = 30 * ms
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d := w.PageTime(0, "http://elsewhere.test/", false); d != 0 {
		t.Errorf("another web: %v", d)
	}
	if d := w.PageTime(0, "http://site-00.test/robots.txt", false); d == 0 {
		t.Error("PageTime of robots.txt = 0, want more")
	}
}
