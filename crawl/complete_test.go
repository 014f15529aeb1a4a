package crawl_test

import (
	"flag"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"peerd/crawl"
	"peerd/crawl/trap"
)

var startPages = flag.String("start-pages", "",
	"HTML files, separated by commas, with which TestTrapsAndSites begins; skipped without it")

// TestTrapsAndSites crawls directories of real documents with the default limits: the
// same URLs are requested as without a Gate.
func TestTrapsAndSites(t *testing.T) {
	if *startPages == "" {
		t.Skip("not tested with real documents: -start-pages is not set")
	}
	for i, file := range strings.Split(*startPages, ",") {
		t.Run(file, func(t *testing.T) {
			all := requested(t, byte(100+2*i), file, nil)
			got := requested(t, byte(101+2*i), file,
				newGate(t, func(*trap.Config) {}))
			t.Logf("%d URLs", len(all))
			for u := range all {
				if got[u] == 0 {
					t.Errorf("%s was not requested", u)
				}
			}
		})
	}
}

// requested crawls the directory of a file and returns the requests by path.
func requested(t *testing.T, net byte, file string, gate *crawl.Gate) map[string]int {
	r := newGatedRig(t, "", 0, gate, nil)
	s := newSite(t, net, 1)
	files := http.FileServer(unlisted{http.Dir(filepath.Dir(file))})
	var mu sync.Mutex
	got := map[string]int{}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		got[req.URL.RequestURI()]++
		mu.Unlock()
		files.ServeHTTP(w, req)
	})
	r.own("a.test", s)
	r.seed(s.url("a.test", "/"+filepath.Base(file)))
	r.crawl()
	if gate != nil {
		t.Logf("dropped %d, %v", r.db.Counters().Dropped, r.db.NamedCounters())
	}
	return got
}

// unlisted hides directories without an index.
type unlisted struct{ http.Dir }

func (d unlisted) Open(name string) (http.File, error) {
	f, err := d.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err == nil && st.IsDir() {
		index, err := d.Dir.Open(filepath.Join(name, "index.html"))
		if err != nil {
			f.Close()
			return nil, err
		}
		index.Close()
	}
	return f, nil
}
