//go:build integration

package assign_test

import "testing"

// Larger networks find such peers, too.
func TestProxyFindsNearOptimalPeersOfMany(t *testing.T) {
	t.Parallel()
	findsNearOptimal{20, 40, 2, 30, 4, 0.75}.run(t)
	findsNearOptimal{64, 40, 1, 40, 2, 0.6}.run(t)
}
