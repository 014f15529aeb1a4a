package frontier

import "time"

// waitGain is how much one job moves the average wait.
const waitGain = 0.05

// waitedLocked takes in how long a job that could have begun waited for a
// worker.
func (f *Frontier) waitedLocked(d time.Duration) {
	f.wait += waitGain * (float64(max(d, 0)) - f.wait)
}

// Wait returns how long a URL that politeness would let go lately waited for a
// free worker: what a new one would wait. It falls towards zero only while
// jobs are taken.
func (f *Frontier) Wait() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending == 0 {
		return 0
	}
	return time.Duration(f.wait)
}
