package admin

// JSON tells an empty list from a missing one; readers of ours need not. The
// functions of this file put an empty list where there is none.

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func table(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{}
	}
	return m
}

func filledAll[T any](in []T, fill func(T) T) []T {
	out := make([]T, 0, len(in))
	for _, v := range in {
		out = append(out, fill(v))
	}
	return out
}

func (c Coordinate) filled() Coordinate {
	c.Vec = list(c.Vec)
	return c
}

func (s Status) filled() Status {
	s.Addrs, s.Blocked, s.Registries = list(s.Addrs), list(s.Blocked), list(s.Registries)
	s.Dropped, s.Marked = table(s.Dropped), table(s.Marked)
	s.Coordinate = s.Coordinate.filled()
	return s
}

func (p Peer) filled() Peer {
	p.Addrs = list(p.Addrs)
	if p.Coordinate != nil {
		c := p.Coordinate.filled()
		p.Coordinate = &c
	}
	return p
}

func (s Subnet) filled() Subnet {
	if s.Proxy != nil {
		p := *s.Proxy
		p.At = p.At.filled()
		s.Proxy = &p
	}
	return s
}

func (l Link) filled() Link {
	l.Outlinks = list(l.Outlinks)
	return l
}

func (r SeedResult) filled() SeedResult {
	r.OutOfScope, r.Invalid = list(r.OutOfScope), list(r.Invalid)
	return r
}
