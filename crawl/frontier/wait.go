package frontier

import "time"

// workerWaitGain is the weight of one job in the average wait.
const workerWaitGain = 0.05

// recordWaitLocked records how long a job that was ready waited for a worker.
func (f *Frontier) recordWaitLocked(d time.Duration) {
	f.workerWait += workerWaitGain * (float64(max(d, 0)) - f.workerWait)
}

// FetchWaitChanged has Node.FetchWait asked again at once: it may return less than before.
func (f *Frontier) FetchWaitChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Before(f.closedUntil) {
		f.closedUntil = now
	}
	f.wake.Signal()
}

// WorkerWait returns the recent average time that a URL waited for a free worker after
// politeness allowed its fetch. The average changes only when jobs are taken. It is 0 if
// nothing is queued.
func (f *Frontier) WorkerWait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending == 0 {
		return 0
	}
	return time.Duration(f.workerWait)
}

// Pauses are the pauses that servers had after requests, for politeness, since New. They do not
// include the waits of hosts that asked for them or failed.
type Pauses struct {
	Count int64
	Total time.Duration
}

// Pauses returns the pauses so far.
func (f *Frontier) Pauses() Pauses {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pauses
}

// Servers returns how many servers with queued URLs may be asked now (ready), and how many must
// be left alone for some time (waiting). Those that are being asked, and those of paused subnets,
// are neither. It takes time in proportion to ready.
func (f *Frontier) Servers() (ready, waiting int) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.ready {
		for _, h := range []readyHeap{f.ready[c].visited, f.ready[c].others} {
			due := h.due(now, 0)
			ready, waiting = ready+due, waiting+len(h)-due
		}
	}
	return ready, waiting
}

// due returns the number of servers at position i of the heap and below that may be asked now.
// No server below one that must wait may be asked earlier.
func (h readyHeap) due(now time.Time, i int) int {
	if i >= len(h) || h[i].readyAt.After(now) {
		return 0
	}
	return 1 + h.due(now, 2*i+1) + h.due(now, 2*i+2)
}
