package feed

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"peerd/store/index"
	"peerd/store/warc"
)

// A Reader reads the page of an exchange; false if it has none.
type Reader func(*warc.Exchange) (index.Document, bool)

// filter is what a collector wants: pages of its hosts, and pages about its topics; all, if it
// names neither.
type filter struct {
	hosts  map[string]bool
	topics []index.Query
	read   Reader
}

// newFilter returns a filter. Topics are queries as index.Parse reads them.
func newFilter(hosts, topics []string, read Reader) (*filter, error) {
	f := &filter{hosts: map[string]bool{}, read: read}
	for _, h := range hosts {
		f.hosts[strings.ToLower(h)] = true
	}
	for _, text := range topics {
		q, err := index.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("topic %.40q: %w", text, err)
		}
		f.topics = append(f.topics, q)
	}
	if len(f.topics) > 0 && read == nil {
		return nil, errors.New("this peer does not know topics")
	}
	return f, nil
}

// all reports whether every page is wanted.
func (f *filter) all() bool { return len(f.hosts) == 0 && len(f.topics) == 0 }

// mayWant reports whether a page with this URL may be wanted.
func (f *filter) mayWant(page string) bool {
	return len(f.topics) > 0 || f.all() || f.ofHost(page)
}

func (f *filter) ofHost(page string) bool {
	u, err := url.Parse(page)
	return err == nil && f.hosts[strings.ToLower(u.Hostname())]
}

// wants reports whether an exchange is wanted.
func (f *filter) wants(x *warc.Exchange) bool {
	if len(f.topics) == 0 || f.ofHost(x.URL) {
		return f.mayWant(x.URL)
	}
	d, ok := f.read(x)
	if !ok {
		return false
	}
	for _, q := range f.topics {
		if q.Matches(d) {
			return true
		}
	}
	return false
}
