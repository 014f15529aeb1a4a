package store

import "sync"

// groupSync lets callers that arrive while a sync is running share the next one.
type groupSync struct {
	turn chanMutex // held while a sync is running

	mu   sync.Mutex
	next *syncRun // the one that waits for its turn, if one does
}

type syncRun struct {
	done chan struct{}
	err  error
}

// do returns when a sync that began after the call has ended.
func (g *groupSync) do(sync func() error) error {
	g.mu.Lock()
	run := g.next
	if run != nil {
		g.mu.Unlock()
		<-run.done
		return run.err
	}
	run = &syncRun{done: make(chan struct{})}
	g.next = run
	g.mu.Unlock()
	g.turn.Lock()
	defer g.turn.Unlock()
	g.mu.Lock()
	g.next = nil
	g.mu.Unlock()
	run.err = sync()
	close(run.done)
	return run.err
}
