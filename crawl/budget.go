package crawl

import "sync"

// pageBudget enforces Config.MaxPages. A worker takes a slot before a fetch and returns it
// if the fetch yielded no page, so the limit is exact with any number of concurrent
// fetches.
type pageBudget struct {
	mu        sync.Mutex
	left      int64         // free slots
	open      int64         // slots of fetches in progress
	freed     chan struct{} // closed and replaced when a slot is returned
	exhausted chan struct{} // closed when every slot has become a page
}

// newPageBudget returns a budget of n pages; it is unlimited unless n is positive.
func newPageBudget(n int64) *pageBudget {
	b := &pageBudget{left: n, freed: make(chan struct{}), exhausted: make(chan struct{})}
	if n <= 0 {
		b.left = 1 << 62
	}
	return b
}

// take takes a slot. If none is free, it returns a channel that is closed when one may be.
func (b *pageBudget) take() (freed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return b.freed, false
	}
	b.left--
	b.open++
	return nil, true
}

// settle ends the fetch for which a slot was taken.
func (b *pageBudget) settle(page bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if !page {
		b.left++
		close(b.freed)
		b.freed = make(chan struct{})
	}
	if b.left == 0 && b.open == 0 {
		close(b.exhausted)
	}
}
