package trap

// repeats says whether a segment or a sequence of segments stands more than
// limit times in a row, one segment more than 2·limit times anywhere, or one
// parameter more than limit times with the same value. Segments of one byte do
// not count alone, empty ones do.
func (f *features) repeats(limit int) bool {
	return f.inRow(limit) || f.again(f.segs[:f.nsegs], 2*limit, true) || f.again(f.pairs[:f.npairs], limit, false)
}

// inRow looks for a period p: segments that equal the one p before, p·limit of
// them in a row, are limit repetitions of the first.
func (f *features) inRow(limit int) bool {
	segs := f.segs[:f.nsegs]
	for p := 1; p*(limit+1) <= len(segs); p++ {
		row := 0
		for i := p; i < len(segs); i++ {
			if !f.same(segs[i], segs[i-p]) || p == 1 && segs[i].hi-segs[i].lo == 1 {
				row = 0
				continue
			}
			if row++; row >= p*limit && !f.tiny(segs[i-p+1:i+1]) {
				return true
			}
		}
	}
	return false
}

// tiny says whether a sequence is of one-byte segments that are all the same:
// what p = 1 exempts.
func (f *features) tiny(seq []span) bool {
	for _, p := range seq {
		if p.hi-p.lo != 1 || !f.same(p, seq[0]) {
			return false
		}
	}
	return true
}

// again says whether one of parts stands more than limit times among them.
func (f *features) again(parts []span, limit int, segments bool) bool {
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
