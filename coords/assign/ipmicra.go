package assign

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"

	"peerd/coords/registry"
)

var _ Strategy = (*IPMicraStrategy)(nil)

// CompanyRule defines when a subnet goes to a crawler that has another subnet of the
// same company. The papers differ.
type CompanyRule int

const (
	// CompanyProbed chooses such a crawler "if such a subnet exists (and the probing result
	// of the crawler having that subnet is smaller than the threshold)": the long paper,
	// Papapetrou and Samaras 2004, III.E.
	CompanyProbed CompanyRule = iota
	// CompanyTrusted chooses a single such crawler without a probe; of several the first
	// that is near enough, or the fastest: the thesis, 7.6.1.
	CompanyTrusted
	// CompanyIgnored does not use companies.
	CompanyIgnored
	// CompanyVerified is CompanyProbed with the addition that the owner of the subnet itself
	// must also be near enough. It is not in the papers.
	CompanyVerified
)

// IPMicraConfig holds the parameters of an IPMicraStrategy.
type IPMicraConfig struct {
	ThresholdConfig
	// Company is the rule for subnets of the same company.
	Company CompanyRule
	// Leaf adds a level below the registries' data. At most an IPv4 /24 or an IPv6 /48 is
	// then delegated, so that one server does not decide for a whole provider. It matters
	// only where single addresses are assigned; a decision about a subnet delegates it as it
	// is.
	Leaf bool
	// Calibration defines when a subnet is delegated again.
	Calibration CalibrationConfig
}

// DefaultIPMicraConfig returns the long paper's rule at 50 ms, with leaves.
func DefaultIPMicraConfig() IPMicraConfig {
	return IPMicraConfig{
		ThresholdConfig: DefaultThresholdConfig(), Company: CompanyProbed, Leaf: true,
		Calibration: DefaultCalibrationConfig(),
	}
}

// Validate returns an error that names every field that is out of range.
func (c IPMicraConfig) Validate() error {
	var err error
	if c.Company < CompanyProbed || c.Company > CompanyVerified {
		err = fmt.Errorf("assign: Company is %d, want one of the CompanyRules", c.Company)
	}
	return errors.Join(c.ThresholdConfig.Validate(), err, c.Calibration.Validate())
}

// IPMicraStrategy is IPMicra (Papapetrou 2003, chapter 7; Papapetrou and Samaras 2004):
// subnets near each other in the registries' hierarchy are near each other in the
// network. It lets the owners of neighbouring subnets probe, from the smallest enclosing
// block to the largest, until one is near enough.
//
// The hierarchy is the table, and the delegations in it are Evidence.Delegations. A new
// table only needs a new strategy: delegations are kept by prefix and find their place
// in it (7.5.3).
type IPMicraStrategy struct {
	cfg   IPMicraConfig
	table *registry.Table
}

// NewIPMicra returns an IPMicraStrategy. Without a table (nil) there is no level between
// a subnet and the whole Internet. The error is that of cfg.Validate.
func NewIPMicra(cfg IPMicraConfig, table *registry.Table) (*IPMicraStrategy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &IPMicraStrategy{cfg: cfg, table: table}, nil
}

// Name returns "ipmicra".
func (s *IPMicraStrategy) Name() string { return "ipmicra" }

// Target returns the subnet that a decision on p delegates: p or, for a single address,
// the smallest enclosing subnet with more than one address.
func (s *IPMicraStrategy) Target(p netip.Prefix) netip.Prefix {
	return subnets{table: s.table, leaf: s.cfg.Leaf}.smallest(p)
}

// Next follows 7.6.1. (The thesis' pseudo-code moves s to the parent and then delegates
// s, which would delegate the parent; in the text and the example the target is
// delegated.)
func (s *IPMicraStrategy) Next(e Evidence) (Step, error) {
	run, err := s.cfg.begin(e)
	if err != nil {
		return Step{}, err
	}
	h := newSubnets(s.table, s.cfg.Leaf, e.Delegations, run.open)
	target := h.smallest(e.Subnet)
	if s.cfg.Company != CompanyVerified {
		if owner, ok := h.delegated(target); ok && run.usable(owner) {
			return Step{Choice: owner}, nil
		}
	}
	if s.cfg.Company == CompanyTrusted {
		if step, ok := trustCompany(run, h, target); ok {
			return step, nil
		}
	}
	return run.walk(s.order(run, h, target)), nil
}

// usable reports whether a peer may be chosen and has not failed to probe.
func (s *search) usable(id string) bool {
	t, ok := s.times[id]
	return s.isOpen(id) && (!ok || !math.IsInf(t, 1))
}

// trustCompany is the thesis' step for companies; ok is false if it does not apply.
func trustCompany(run *search, h subnets, target netip.Prefix) (Step, bool) {
	var owners []string
	for owner := range distinct(ownersOf(h.company(target))) {
		if run.usable(owner) {
			owners = append(owners, owner)
		}
	}
	if len(owners) == 0 {
		return Step{}, false
	}
	if len(owners) == 1 {
		return Step{Choice: owners[0]}, true
	}
	fastest := owners[0]
	for _, owner := range owners {
		switch {
		case run.near(owner):
			return Step{Choice: owner}, true
		case !run.probed(owner) && run.allowed:
			return run.probe(owner), true
		case run.probed(owner) && (!run.probed(fastest) || run.times[owner] < run.times[fastest]):
			fastest = owner
		}
	}
	return Step{Choice: fastest}, true
}

// order yields the peers to ask: the owner of the subnet itself if it has to be
// verified, the owners of the same company's subnets, then level by level upwards the
// owners of the level and of all subnets in it, and finally the other candidates.
func (s *IPMicraStrategy) order(run *search, h subnets, target netip.Prefix) iter.Seq[string] {
	return distinct(func(yield func(string) bool) {
		if owner, ok := h.delegated(target); ok && !yield(owner) {
			return
		}
		if s.cfg.Company == CompanyProbed || s.cfg.Company == CompanyVerified {
			for d := range h.company(target) {
				if !yield(d.Owner) {
					return
				}
			}
		}
		for level := range h.levels(target) {
			for d := range h.within(level) {
				if !yield(d.Owner) {
					return
				}
			}
		}
		for _, id := range run.shuffled() {
			if !yield(id) {
				return
			}
		}
	})
}

// ownersOf yields the owners of delegations.
func ownersOf(ds iter.Seq[Delegation]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for d := range ds {
			if !yield(d.Owner) {
				return
			}
		}
	}
}

// distinct yields each name once.
func distinct(ids iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := make(map[string]bool)
		for id := range ids {
			if !seen[id] {
				seen[id] = true
				if !yield(id) {
					return
				}
			}
		}
	}
}
