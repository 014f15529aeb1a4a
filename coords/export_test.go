package coords

// Neighbours returns how many peers e remembers.
func (e *Estimator) Neighbours() int { return len(e.order) }
