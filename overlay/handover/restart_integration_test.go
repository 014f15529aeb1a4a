//go:build integration

package handover

import "testing"

// TestRestartAtEachStepAll is TestRestartAtEachStep with every step.
func TestRestartAtEachStepAll(t *testing.T) { testRestartAtEachStep(t, 1) }
