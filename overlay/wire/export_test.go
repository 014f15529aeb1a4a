package wire

// SetMemory is LimitMemory for one test; the result undoes it.
func SetMemory(bytes int) (undo func()) {
	old := inFlight.Load()
	LimitMemory(bytes)
	return func() { inFlight.Store(old) }
}

// InUse returns how many bytes of messages are in use.
func InUse() int {
	s := inFlight.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}
