package store

import "sync"

// groupSync lets callers that arrive while a sync is running share the next one. The zero value is
// ready.
type groupSync struct {
	mu      sync.Mutex
	running *syncRun
	next    *syncRun
}

type syncRun struct {
	done chan struct{}
	err  error
}

// do returns when a sync that began after the call has ended.
func (g *groupSync) do(sync func() error) error {
	g.mu.Lock()
	if g.running == nil {
		run := &syncRun{done: make(chan struct{})}
		g.running = run
		g.mu.Unlock()
		g.lead(run, sync)
		return run.err
	}
	lead, before := g.next == nil, g.running
	if lead {
		g.next = &syncRun{done: make(chan struct{})}
	}
	run := g.next
	g.mu.Unlock()
	if !lead {
		<-run.done
		return run.err
	}
	<-before.done
	g.lead(run, sync)
	return run.err
}

// lead runs a sync and makes the next one current.
func (g *groupSync) lead(run *syncRun, sync func() error) {
	run.err = sync()
	g.mu.Lock()
	g.running, g.next = g.next, nil
	g.mu.Unlock()
	close(run.done)
}
