package assign_test

import (
	"net/netip"
	"testing"

	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	"peerd/coords/registry"
	_ "peerd/internal/rapidtest"
)

// must returns the strategy of a constructor that had no reason to fail.
func must[S assign.Strategy](s S, err error) assign.Strategy {
	if err != nil {
		panic(err)
	}
	return s
}

// conformanceTable is a registry over the addresses that the suite draws.
func conformanceTable() *registry.Table {
	entries := []registry.Entry{
		{Prefix: netip.MustParsePrefix("198.0.0.0/8")},
		{Prefix: netip.MustParsePrefix("198.50.0.0/16"), Holder: "a"},
		{Prefix: netip.MustParsePrefix("198.51.0.0/16"), Holder: "b"},
		{Prefix: netip.MustParsePrefix("198.51.64.0/18"), Holder: "a"},
		{Prefix: netip.MustParsePrefix("198.51.128.0/17"), Holder: "c"},
	}
	t, err := registry.Build(entries)
	if err != nil {
		panic(err)
	}
	return t
}

// halves locates addresses by their second last byte; the last ones nowhere.
func halves(a netip.Addr) (lat, lon float64, ok bool) {
	b := a.AsSlice()[2]
	return float64(b)/4 - 30, float64(b)/2 - 60, b < 200
}

func TestConformance(t *testing.T) {
	t.Parallel()
	table := conformanceTable()
	for _, c := range []struct {
		limit       int
		newStrategy func() assign.Strategy
	}{
		{assigntest.MaxProbes, func() assign.Strategy { return newProxy(t) }},
		{assigntest.MaxProbes, func() assign.Strategy {
			return assign.NewRandom(assign.RandomConfig{Seed: 1})
		}},
		{assigntest.MaxProbes, func() assign.Strategy { return newHash(t, 64) }},
		{assigntest.MaxProbes, func() assign.Strategy { return assign.KeepStrategy{} }},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewGeo(halves))
		}},
		{assigntest.AllCandidates, func() assign.Strategy {
			return must(assign.NewProbe(assign.DefaultProbeConfig()))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewSequential(assign.DefaultThresholdConfig()))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewHiMicra(assign.DefaultHiMicraConfig()))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewIPMicra(assign.DefaultIPMicraConfig(), table))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewIPMicra(assign.DefaultIPMicraConfig(), nil))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewIPMicra(trusting(), table))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewIPMicra(verifying(), table))
		}},
		{assigntest.MaxProbes, func() assign.Strategy {
			return must(assign.NewIPMicraProxy(assign.DefaultIPMicraProxyConfig(), table))
		}},
	} {
		t.Run(c.newStrategy().Name(), func(t *testing.T) {
			assigntest.RunLimit(t, c.limit, c.newStrategy)
		})
	}
}

// trusting is the thesis' rule for companies.
func trusting() assign.IPMicraConfig {
	c := assign.DefaultIPMicraConfig()
	c.Company = assign.CompanyTrusted
	return c
}

// verifying lets even the owner of the subnet probe.
func verifying() assign.IPMicraConfig {
	c := assign.DefaultIPMicraConfig()
	c.Company = assign.CompanyVerified
	return c
}
