package admin

// The functions of this file replace nil lists by empty ones, so that clients never see null
// for a list.

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func nonNilMap(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{}
	}
	return m
}

func normalizeAll[T any](in []T, fill func(T) T) []T {
	out := make([]T, 0, len(in))
	for _, v := range in {
		out = append(out, fill(v))
	}
	return out
}

func (c Coordinate) normalized() Coordinate {
	c.Vec = nonNil(c.Vec)
	return c
}

func (s Status) normalized() Status {
	s.Bootstrap = nonNil(s.Bootstrap)
	s.Addrs, s.Blocked, s.Registries = nonNil(s.Addrs), nonNil(s.Blocked), nonNil(s.Registries)
	s.Dropped, s.Marked = nonNilMap(s.Dropped), nonNilMap(s.Marked)
	s.Coordinate = s.Coordinate.normalized()
	return s
}

func (p Peer) normalized() Peer {
	p.Addrs = nonNil(p.Addrs)
	if p.Coordinate != nil {
		c := p.Coordinate.normalized()
		p.Coordinate = &c
	}
	return p
}

func (s Subnet) normalized() Subnet {
	if s.Proxy != nil {
		p := *s.Proxy
		p.At = p.At.normalized()
		s.Proxy = &p
	}
	return s
}

func (l Link) normalized() Link {
	l.Outlinks = nonNil(l.Outlinks)
	return l
}

func (r SeedResult) normalized() SeedResult {
	r.OutOfScope, r.Invalid = nonNil(r.OutOfScope), nonNil(r.Invalid)
	return r
}

func (s Site) normalized() Site {
	s.At = s.At.normalized()
	return s
}

func (p Placement) normalized() Placement {
	p.Candidates, p.Moves = nonNil(p.Candidates), nonNil(p.Moves)
	return p
}
