package peers

import (
	"sync"
	"time"
)

// twinBeacons is how many beacons with the key of this peer that another process has made show that
// the other process still runs. They do not count within the first twinAfter intervals: if the
// clock was set back before a restart, peers have beacons of the process before that seem newer.
// twinFor is how long the other process is believed to run after the last one.
const (
	twinBeacons = 3
	twinAfter   = 4
	twinFor     = 2 * maxInterval
)

// twin is what is known of another process that runs with the key of this peer, such as a copy of
// its home or of its machine.
type twin struct {
	mu      sync.Mutex
	since   time.Time // when beacons begin to count
	seq     uint64    // the highest in a beacon that this process has not made
	beacons int       // of the other process
	at      time.Time // when the last one came
}

// see notes that another process has made a beacon. It must be newer than all beacons known so far,
// of either process. It reports whether that shows the twin for the first time.
func (w *twin) see(seq uint64, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq <= w.seq {
		return false
	}
	w.seq = seq
	if now.Before(w.since) {
		return false
	}
	if now.Sub(w.at) >= twinFor {
		w.beacons = 0
	}
	w.at = now
	w.beacons++
	return w.beacons == twinBeacons
}

// last returns the highest Seq of the other process.
func (w *twin) last() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq
}

// runs reports whether the other process runs.
func (w *twin) runs(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beacons >= twinBeacons && now.Sub(w.at) < twinFor
}

// returned handles a beacon with the key of this peer. Another peer relays it because it is newer
// than the last one that this process has shown. The next beacon is made at once, and is newer.
func (in *intake) returned(raw []byte) error {
	claim, err := peek(raw)
	if err != nil || claim.Seq <= max(in.self.beacon().Seq, in.self.twin.last()) {
		return err
	}
	b, err := Open(raw, in.cfg.Topic, in.dims)
	if err != nil {
		return err
	}
	if in.self.twin.see(b.Seq, time.Now()) {
		in.log.Error("found another process with the key of this peer; stop one of them",
			"addrs", b.Addrs)
	}
	return nil
}

// Twin reports whether another process runs with the key of this peer, such as a copy of its home.
// Other peers take both for one, so that each may fetch what the other fetches.
func (s *Service) Twin() bool { return s.self.twin.runs(time.Now()) }
