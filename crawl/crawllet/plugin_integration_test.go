//go:build integration

package crawllet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/crawl/crawllet/page"
)

// runPlugin opens and runs a plug-in; stop ends it and returns the error of Run.
func runPlugin(t *testing.T, pkg string, pageTime time.Duration) (p *Plugin, stop func() error) {
	t.Helper()
	p, err := OpenPlugin(t.Context(), cache, build(t, pkg))
	if err != nil {
		t.Fatal(err)
	}
	p.PageTime = pageTime
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { err = p.Run(ctx) })
	return p, func() error { cancel(); run.Wait(); return err }
}

func TestPlugin(t *testing.T) {
	p, stop := runPlugin(t, "./sample", 5*time.Minute)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			filler := strings.Repeat("x", i*10_000)
			got, err := p.Process(page.Page{URL: "http://a.example/", Body: []byte(filler +
				`<meta name="description" content="A &amp; B"><script type="application/ld+json">` +
				`{"a":[{"url":"/x"}]}</script>`)})
			want := page.Result{Links: []string{"/x"},
				Fields: map[string]string{"description": "A & B"}}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("result %v, %v, want %v", got, err, want)
			}
		})
	}
	all.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.Process(page.Page{}); !errors.Is(err, ErrOff) {
		t.Errorf("error %v, want %v", err, ErrOff)
	}
}

// A plug-in that does not do as it should is stopped, with a name for what it did, and no page
// waits.
func TestPluginFailures(t *testing.T) {
	for _, tt := range []struct {
		what string
		want Reason
		time time.Duration
	}{
		{"crash", Crashed, 5 * time.Minute},
		{"exit", Crashed, 5 * time.Minute},
		{"loop", Deadline, 5 * time.Second},
		{"deaf", Deadline, 5 * time.Second},
		{"closed", Deadline, 5 * time.Second},
		{"flood", OutputLimit, 5 * time.Minute},
		{"memory", MemoryLimit, 5 * time.Minute},
		{"nonsense", BadReply, 5 * time.Minute},
		{"file", Crashed, 5 * time.Minute},
	} {
		t.Run(tt.what, func(t *testing.T) {
			p, err := OpenPlugin(t.Context(), cache, build(t, "./testdata/badplugin"))
			if err != nil {
				t.Fatal(err)
			}
			p.PageTime = 5 * time.Minute
			ended := make(chan error, 1)
			go func() { ended <- p.Run(t.Context()) }()
			if r, err := p.Process(page.Page{URL: "good"}); err != nil || len(r.Links) != 1 {
				t.Fatalf("good page: %v, %v", r, err)
			}
			p.PageTime = tt.time // the process exists, and Run waits
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if r, err := p.Process(page.Page{URL: tt.what, Type: secret,
				Body: make([]byte, 1<<20)}); !errors.Is(err, ErrOff) {
				t.Errorf("result %v, %v, want %v", r, err, ErrOff)
			}
			if err := <-ended; !errors.Is(err, tt.want) {
				t.Errorf("plug-in ended with %v, want %v", err, tt.want)
			} else {
				t.Log(err)
			}
		})
	}
	if _, err := OpenPlugin(t.Context(), cache, []byte("nothing")); !errors.Is(err, BadModule) {
		t.Errorf("error %v, want %v", err, BadModule)
	}
}
