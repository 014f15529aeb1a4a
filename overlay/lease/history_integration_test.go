//go:build integration

package lease

import "testing"

func TestLongHistoryIsLinearizable(t *testing.T) { checkLinearizable(t, 4, 5) }
