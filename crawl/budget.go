package crawl

import "sync"

// budget counts pages against Config.MaxPages: a place is taken before a fetch
// and given back when no page came of it, so that the end is exact however
// many fetches are under way.
type budget struct {
	mu    sync.Mutex
	left  int64         // places free
	open  int64         // places taken whose fetches are under way
	freed chan struct{} // closed, and replaced, when a place is given back
	full  chan struct{} // closed when all places were turned into pages
}

// newBudget returns a budget of n pages; none at all is never spent.
func newBudget(n int64) *budget {
	b := &budget{left: n, freed: make(chan struct{}), full: make(chan struct{})}
	if n <= 0 {
		b.left = 1 << 62
	}
	return b
}

// take takes a place. When none is free it returns a channel that is closed
// when one may be.
func (b *budget) take() (freed <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return b.freed, false
	}
	b.left--
	b.open++
	return nil, true
}

// settle ends the fetch of a place that was taken.
func (b *budget) settle(page bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	if !page {
		b.left++
		close(b.freed)
		b.freed = make(chan struct{})
	}
	if b.left == 0 && b.open == 0 {
		close(b.full)
	}
}
