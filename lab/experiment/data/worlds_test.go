package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const smallWorld = `{"name":"small","note":"",
"crawler_ips":["1.0.0.2","2.0.0.2"],
"site_ips":["1.0.0.9","2.0.0.9","2.1.0.9"],
"probe_ms":[[10,100,20000],[90,30.5,50000]],
"ranges_full":[{"first":"1.0.0.0","last":"1.255.255.255","holder":-1},
{"first":"1.0.0.0","last":"1.0.2.255","holder":7}],
"ranges_holder":[]}`

func TestReadWorld(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(smallWorld))
	z.Close()
	for name, r := range map[string]string{"plain": smallWorld, "gzip": packed.String()} {
		w, err := ReadWorld(strings.NewReader(r))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.ProbeMS[1][1] != 30.5 || w.ProbeMS[1][2] != ProbeFailed || w.Best(1) != 30.5 {
			t.Errorf("%s: times %v", name, w.ProbeMS)
		}
		// 1.0.0.0 to 1.0.2.255 is a /23 and a /24.
		if e, ok := w.Full.Lookup(w.Sites[0]); !ok || e.Holder != "world:7" || w.Full.Len() != 3 ||
			w.Holders.Len() != 0 {
			t.Errorf("%s: %+v of %d", name, e, w.Full.Len())
		}
	}
}

func TestReadWorldErrors(t *testing.T) {
	for name, change := range map[string][2]string{
		"no object":        {smallWorld, "[]"},
		"no crawlers":      {`"1.0.0.2","2.0.0.2"`, ``},
		"a row missing":    {`,[90,30.5,50000]`, ``},
		"a time missing":   {`30.5,50000`, `30.5`},
		"a negative time":  {`30.5`, `-1`},
		"no address":       {`"2.1.0.9"`, `"somewhere"`},
		"an empty address": {`"2.1.0.9"`, `""`},
		"range backwards":  {`"last":"1.0.2.255"`, `"last":"0.0.0.1"`},
		"range of two":     {`"last":"1.0.2.255"`, `"last":"::1"`},
		"cut":              {`"ranges_holder":[]}`, ``},
	} {
		bad := strings.Replace(smallWorld, change[0], change[1], 1)
		if bad == smallWorld {
			t.Fatalf("%s: nothing to change", name)
		}
		if w, err := ReadWorld(strings.NewReader(bad)); !errors.Is(err, ErrWorld) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

func FuzzReadWorld(f *testing.F) {
	f.Add([]byte(smallWorld))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add([]byte(`{"crawler_ips":["::1"],"site_ips":["::ffff:1.2.3.4"],"probe_ms":[[1e300]],
"ranges_full":[{"first":"::","last":"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := ReadWorld(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(w.Crawlers) == 0 || len(w.ProbeMS) != len(w.Crawlers) || w.Full == nil ||
			w.Holders == nil {
			t.Fatalf("incomplete world: %+v", w)
		}
		for _, row := range w.ProbeMS {
			for _, ms := range row {
				if !(ms >= 0 && ms <= ProbeFailed) {
					t.Fatalf("time %v", ms)
				}
			}
		}
		w.Full.Lookup(w.Sites[0])
	})
}

func TestSynth(t *testing.T) {
	cfg := SynthConfig{Crawlers: 6, Sites: 200, Coherence: 0.85}
	a, b := Synth(3, cfg), Synth(3, cfg)
	if !reflect.DeepEqual(a.ProbeMS, b.ProbeMS) || !reflect.DeepEqual(a.Sites, b.Sites) {
		t.Error("Synth() differs for equal seeds")
	}
	if len(a.Crawlers) != 6 || len(a.Sites) != 200 {
		t.Fatalf("%d crawlers, %d sites", len(a.Crawlers), len(a.Sites))
	}
	for _, s := range a.Sites {
		if _, ok := a.Full.Lookup(s); !ok {
			t.Fatalf("%s is in no range", s)
		}
		if e, ok := a.Holders.Lookup(s); !ok || e.Holder == "" {
			t.Fatalf("%s has no holder", s)
		}
	}
	if g := Gaussian(1, 50, 100, 265); len(g.ProbeMS) != 50 || len(g.ProbeMS[0]) != 100 {
		t.Errorf("Gaussian() has %d rows, want 50 of 100 times", len(g.ProbeMS))
	}
}
