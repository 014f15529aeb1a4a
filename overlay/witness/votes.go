package witness

import "time"

// VotesFrom returns from when on this peer votes as a witness, by its own clock: what
// may have been promised in an earlier life of it, and is forgotten, is over then.
func (s *Service) VotesFrom() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.wait
}
