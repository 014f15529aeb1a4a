package assign

var _ Strategy = KeepStrategy{}

// KeepStrategy leaves every subnet with the peer that found it, without a probe:
// crawling without assignments (Malet 2009, section 3.3.2). It is the baseline that the
// other strategies have to improve on.
type KeepStrategy struct{}

// Name returns "keep".
func (KeepStrategy) Name() string { return "keep" }

// Next chooses at once.
func (KeepStrategy) Next(e Evidence) (Step, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Step{}, err
	}
	if e.Exclude[e.Self] { // this peer cannot own it: take any other
		return Step{Choice: open[0].ID}, nil
	}
	return Step{Choice: e.Self}, nil
}
