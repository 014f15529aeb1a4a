package sim

import "time"

// judgeEpochs holds what was fetched against the epochs under which it was: of a
// subnet no two peers fetch under the same one, and who comes later does not come
// under an earlier one, but while some cannot hear others.
func (w *world) judgeEpochs(s Schedule, bad func(string, ...any)) {
	type claim struct {
		subnet string
		epoch  uint64
	}
	first := map[claim]ask{}
	latest := map[string]ask{}
	offset := w.seeded.Sub(w.begin)
	for _, a := range w.asks {
		at := a.at - offset
		_, cut := s.silent(at-settle, at)
		key := claim{a.subnet, a.epoch}
		was, ok := first[key]
		if !ok {
			first[key] = a
		} else if was.peer != a.peer && !cut {
			bad("%s was asked under epoch %d of %s by peer %d at %.3fs, and by peer %d at %.3fs", a.url, a.epoch, a.subnet, a.peer, a.at.Seconds(), was.peer, was.at.Seconds())
		}
		if last := latest[a.subnet]; last.epoch <= a.epoch {
			latest[a.subnet] = a
		} else if last.peer != a.peer && !cut {
			bad("%s was asked by peer %d at %.3fs under epoch %d of %s, and before by peer %d under epoch %d at %.3fs",
				a.url, a.peer, a.at.Seconds(), a.epoch, a.subnet, last.peer, last.epoch, last.at.Seconds())
		}
	}
}

// judgeShadows wants each subnet in the end to have a copy somewhere else.
func (w *world) judgeShadows(bad func(string, ...any)) {
	for p, peers := range w.held {
		for _, m := range w.machines {
			if _, ok := peers[m.n]; !ok || !m.running() {
				continue
			}
			some := false
			if t := w.termAt(p, time.Since(w.seeded)); t != nil && t.peer == m.n {
				for _, n := range t.shadows {
					some = some || w.machines[n].running()
				}
			}
			if !some {
				bad("%s, held by peer %d, has no shadow", p, m.n)
			}
		}
	}
}

// silent names a fault that keeps somebody from hearing others at some time from
// one to another, while it goes on.
func (s Schedule) silent(from, to time.Duration) (Fault, bool) {
	for _, f := range s.Faults {
		switch f.Kind {
		case Split, OneWay, Long, Pause, Offline:
			if f.on(from, to) {
				return f, true
			}
		}
	}
	return Fault{}, false
}
