package coords

// Neighbours returns the number of peers that e remembers.
func (e *Estimator) Neighbours() int { return len(e.order) }
