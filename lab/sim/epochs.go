package sim

import "time"

// judgeEpochs checks the epochs of all requests: no two peers send requests to a
// subnet under the same epoch, and a later request never has a lower epoch. Requests
// during a partition and shortly after it are exempt.
func (w *world) judgeEpochs(s Schedule, bad func(string, ...any)) {
	type claim struct {
		subnet string
		epoch  uint64
	}
	first := map[claim]request{}
	latest := map[string]request{}
	offset := w.seeded.Sub(w.begin)
	for _, a := range w.requests {
		at := a.at - offset
		_, cut := s.isolated(at-settleTime, at)
		key := claim{a.subnet, a.epoch}
		was, ok := first[key]
		if !ok {
			first[key] = a
		} else if was.peer != a.peer && !cut {
			bad("%s: peer %d fetched under epoch %d of %s at %.3fs, and peer %d did at %.3fs",
				a.url, a.peer, a.epoch, a.subnet, a.at.Seconds(), was.peer, was.at.Seconds())
		}
		if last := latest[a.subnet]; last.epoch <= a.epoch {
			latest[a.subnet] = a
		} else if last.peer != a.peer && !cut {
			bad("%s: peer %d fetched under epoch %d of %s at %.3fs, but peer %d had fetched "+
				"under epoch %d at %.3fs", a.url, a.peer, a.epoch, a.subnet, a.at.Seconds(),
				last.peer, last.epoch, last.at.Seconds())
		}
	}
}

// judgeReplicas checks that each owned subnet has a running replica at the end.
func (w *world) judgeReplicas(bad func(string, ...any)) {
	running := 0
	for _, m := range w.machines {
		if m.running() {
			running++
		}
	}
	if running < 2 {
		return // there is no peer to be a replica
	}
	for p, peers := range w.held {
		for _, m := range w.machines {
			if _, ok := peers[m.n]; !ok || !m.running() {
				continue
			}
			some := false
			if t := w.termAt(p, time.Since(w.seeded)); t != nil && t.peer == m.n {
				for _, n := range t.replicas {
					some = some || w.machines[n].running()
				}
			}
			if !some {
				bad("%s, owned by peer %d, has no running replica", p, m.n)
			}
		}
	}
}

// isolated returns a fault, active between from and to, that keeps a peer from
// receiving messages of others.
func (s Schedule) isolated(from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		switch f.Kind {
		case Split, OneWay, LongSplit, Pause, Offline:
			if f.active(from, to) {
				return f, true
			}
		}
	}
	return Fault{}, false
}
