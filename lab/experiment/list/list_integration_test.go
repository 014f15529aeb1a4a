//go:build integration

package list

import (
	"fmt"
	"testing"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
	"peerd/lab/experiment/scale"
)

// Equal seeds give equal figures.
func TestScaleRepeats(t *testing.T) {
	var lines [2]string
	for i := range lines {
		lines[i] = fmt.Sprint(experimenttest.Run(t, scale.Scale(), experiment.Params{Quick: true,
			Peers: 50, Rounds: 12, Sites: 10, Seed: 7}).Tables)
	}
	if lines[0] != lines[1] {
		t.Errorf("%s\n%s", lines[0], lines[1])
	}
}
