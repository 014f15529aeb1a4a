package assign_test

import (
	"testing"

	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
)

func TestConformance(t *testing.T) {
	for _, newStrategy := range []func() assign.Strategy{
		func() assign.Strategy { return newProxy(t) },
		func() assign.Strategy { return assign.NewRandom(assign.RandomConfig{Seed: 1}) },
		func() assign.Strategy { return newHash(t, 64) },
		func() assign.Strategy { return assign.KeepStrategy{} },
	} {
		t.Run(newStrategy().Name(), func(t *testing.T) { assigntest.Run(t, newStrategy) })
	}
}
