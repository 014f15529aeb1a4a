package search

import (
	"net/http"
	"sync"
	"time"

	"peerd/crawl"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// MaxText bounds the text of one page, in bytes.
const MaxText = 4 << 20

// recentBytes bounds the pages in a Recent. Half of it is what a peer that crawls fast fetches
// while a batch is written.
const recentBytes = 16 << 20

// Recent holds what the crawler has read of pages that it has archived and that are not indexed
// yet, so that they need not be read from the archive. When it is full, it does not take more:
// those that it has are the next ones that are needed. Its methods are safe for concurrent use.
type Recent struct {
	mu    sync.Mutex
	known map[place]*recentAnswer
	bytes int
	pass  uint64        // the number of passes of the Indexer that have begun
	half  chan struct{} // receives when half of recentBytes, or more, wait to be indexed
}

// place is the start of an exchange in the archive.
type place struct {
	file   string
	offset int64
}

// recentAnswer is what an answer says about its page.
type recentAnswer struct {
	answer
	end   int64 // of the exchange in the file
	bytes int
	pass  uint64 // that of Recent when this was added
}

// answer is what an answer says about a page: Page if there is one, Gone if there is none. If it
// says nothing, neither is set.
type answer struct {
	url  store.URL
	page *index.Document
	gone bool
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent {
	return &Recent{known: map[place]*recentAnswer{}, half: make(chan struct{}, 1)}
}

// Add adds an answer, unless Recent has recentBytes already.
func (r *Recent) Add(a crawl.Archived) {
	if a.Status == http.StatusOK && a.Page == nil && !isRobots(a.URL) {
		return // it may be text
	}
	p := Page{Status: a.Status}
	if a.Page != nil && a.Status == http.StatusOK {
		p.Document, p.NoIndex = *a.Page, !a.Page.Robots.MayIndex(time.Now())
		if !p.NoIndex {
			p.Type = typeHTML
		}
	}
	v := &recentAnswer{answer: p.answer(a.URL, a.Time, a.Addr,
		store.Location{File: a.At.File, Offset: a.At.Offset}), end: a.At.End, bytes: 256}
	if v.page != nil {
		v.bytes += sizeOf(v.page)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{a.At.File, a.At.Offset}
	r.forget(at) // if the archive was cut, and written again
	if r.bytes+v.bytes <= recentBytes {
		v.pass = r.pass
		r.known[at] = v
		r.bytes += v.bytes
	}
	if r.bytes >= recentBytes/2 {
		select {
		case r.half <- struct{}{}:
		default: // it has not been received yet
		}
	}
}

// begin begins a pass over the archive from the position of the index to its end, and returns its
// number.
func (r *Recent) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass++
	return r.pass
}

// end ends a pass that has come to the end of the archive. What was added before it began and was
// not taken is not needed: its file is damaged, or was removed.
func (r *Recent) end(pass uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, v := range r.known {
		if v.pass < pass {
			r.forget(at)
		}
	}
}

// forget removes an answer, if it is known. r.mu is held.
func (r *Recent) forget(at place) {
	if v := r.known[at]; v != nil {
		r.bytes -= v.bytes
		delete(r.known, at)
	}
}

// take returns what is known of an exchange, or nil, and forgets it. If it cannot be indexed, it is
// read from the archive the next time.
func (r *Recent) take(file string, offset int64) *recentAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{file, offset}
	v := r.known[at]
	r.forget(at)
	return v
}

func isRobots(u store.URL) bool { return string(u) == u.Origin()+"/robots.txt" }

// follow returns a warc.Known that passes what is in r to use.
func (r *Recent) follow(use func(answer) error) warc.Known {
	return func(file string, offset int64) (end int64, err error) {
		v := r.take(file, offset)
		if v == nil {
			return 0, nil
		}
		return v.end, use(v.answer)
	}
}
