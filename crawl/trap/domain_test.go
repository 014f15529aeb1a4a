package trap

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestSubdomains(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	for _, c := range []struct {
		name  string
		label func(r *rand.Rand, i int) string
		want  uint32
	}{
		// some do not look generated
		{"random", func(r *rand.Rand, _ int) string {
			return "x" + random(r, 11)
		}, 500 + 50},
		{"numbers", func(_ *rand.Rand, i int) string {
			return fmt.Sprintf("user%07d", i)
		}, 500},
		{"words", func(_ *rand.Rand, i int) string { return "o" + letters(i) }, 20_000},
		{"deep", func(_ *rand.Rand, i int) string {
			return letters(i) + ".a.b.c.d.e.f.g.h"
		}, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var d Domain
			const n = 25_000
			for i := range n {
				g.AdmitHost(&d, c.label(r, i)+".trap.example")
			}
			t.Logf("%d of %d came through", d.Hosts, n)
			if most := max(c.want, d.Hosts-d.Generated+500); c.name == "random" &&
				d.Generated > most || c.name != "random" && d.Hosts > c.want {
				t.Errorf("%d hosts, %d generated, want %d", d.Hosts, d.Generated, c.want)
			}
			if d.Dropped+uint64(d.Hosts) != n {
				t.Errorf("%d hosts dropped and %d admitted, of %d", d.Dropped, d.Hosts, n)
			}
			if h := g.AdmitHost(&d, "trap.example"); h != None {
				t.Errorf("AdmitHost() of the domain itself = %v, want None", h)
			}
		})
	}
}

func TestLooksGenerated(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]bool{
		"www": false, "docs": false, "mail2": false, "s3": false, "node101": false, "de": false,
		"static-cdn-1": false,
		"catchphrase":  false, "xn--bcher-kva8445foa": false, "lengths": false, "wikipedia": false,
		"py3k": false, "k8s": false,
		"user12345": true, "a1b2c3d4": true, "xkqzvwptr": true, "5d41402abc4b": true, "2031": true,
	} {
		if got := looksGenerated(label); got != want {
			t.Errorf("looksGenerated(%q) = %v", label, got)
		}
	}
}
