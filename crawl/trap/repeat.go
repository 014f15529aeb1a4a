package trap

// repeats reports whether a segment or a sequence of segments occurs more than limit times
// in a row, a segment more than 2·limit times anywhere, or a parameter more than limit
// times with the same value. Segments of one byte do not count on their own; empty segments
// do.
func (f *features) repeats(limit int) bool {
	return f.repeatsInRow(limit) || f.repeatsAnywhere(f.segs[:f.nsegs], 2*limit, true) ||
		f.repeatsAnywhere(f.pairs[:f.npairs], limit, false)
}

// repeatsInRow looks for a period p: if p·limit consecutive segments each equal the one p
// positions before, the sequence occurs limit+1 times.
func (f *features) repeatsInRow(limit int) bool {
	segs := f.segs[:f.nsegs]
	for p := 1; p*(limit+1) <= len(segs); p++ {
		row := 0
		for i := p; i < len(segs); i++ {
			if !f.same(segs[i], segs[i-p]) || p == 1 && segs[i].hi-segs[i].lo == 1 {
				row = 0
				continue
			}
			if row++; row >= p*limit && !f.sameByte(segs[i-p+1:i+1]) {
				return true
			}
		}
	}
	return false
}

// sameByte reports whether seq consists of identical one-byte segments, which the case p =
// 1 exempts.
func (f *features) sameByte(seq []span) bool {
	for _, p := range seq {
		if p.hi-p.lo != 1 || !f.same(p, seq[0]) {
			return false
		}
	}
	return true
}

// repeatsAnywhere reports whether one of parts occurs more than limit times.
func (f *features) repeatsAnywhere(parts []span, limit int, segments bool) bool {
	for i := 0; i+limit < len(parts); i++ {
		if segments && parts[i].hi-parts[i].lo == 1 {
			continue
		}
		n := 1
		for j := i + 1; j < len(parts) && n+len(parts)-j > limit; j++ {
			if f.same(parts[i], parts[j]) {
				n++
			}
		}
		if n > limit {
			return true
		}
	}
	return false
}

func (f *features) same(a, b span) bool { return a.hi-a.lo == b.hi-b.lo && a.of(f.s) == b.of(f.s) }
