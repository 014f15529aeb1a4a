package registry

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// prefixes are the prefixes of what seq yields.
func prefixes(seq func(func(Entry) bool)) []string {
	var out []string
	for e := range seq {
		out = append(out, e.Prefix.String())
	}
	return out
}

func nested(t *testing.T) *Table {
	t.Helper()
	table, err := Build([]Entry{
		{Prefix: pfx("2001:db8::/32"), Holder: "arin:v6", Registry: "arin", Country: "US"},
		{Prefix: pfx("10.1.0.0/16"), Holder: "ripencc:a", Registry: "ripencc", Country: "NL"},
		{Prefix: pfx("10.0.0.0/8"), Registry: "ripencc"},
		{Prefix: pfx("10.1.2.0/24"), Holder: "ripencc:b", Registry: "ripencc", Country: "DE"},
		{Prefix: pfx("10.1.3.0/24"), Holder: "ripencc:a", Registry: "ripencc", Country: "NL"},
		{Prefix: pfx("10.2.0.0/15"), Holder: "ripencc:b", Registry: "ripencc"},
		{Prefix: pfx("2001:db8:7::/48"), Holder: "arin:v6", Registry: "arin", Country: "US"},
		{Prefix: pfx("0.0.0.0/8"), Registry: "iana"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTable(t *testing.T) {
	table := nested(t)
	if table.Len() != 8 {
		t.Errorf("%d entries", table.Len())
	}
	for _, c := range []struct{ addr, want, holder string }{
		{"10.1.2.7", "10.1.2.0/24", "ripencc:b"},
		{"::ffff:10.1.2.7", "10.1.2.0/24", "ripencc:b"},
		{"10.1.4.7", "10.1.0.0/16", "ripencc:a"},
		{"10.9.0.1", "10.0.0.0/8", ""},
		{"11.0.0.1", "", ""},
		{"2001:db8:7::1", "2001:db8:7::/48", "arin:v6"},
		{"2001:db8:8::1%eth0", "2001:db8::/32", "arin:v6"},
	} {
		e, ok := table.Lookup(netip.MustParseAddr(c.addr))
		if ok != (c.want != "") || ok && (e.Prefix.String() != c.want || e.Holder != c.holder) {
			t.Errorf("%s: %v %v, want %s of %q", c.addr, e, ok, c.want, c.holder)
		}
	}
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"up from inside", prefixes(table.Supernets(pfx("10.1.2.128/25"))),
			[]string{"10.1.2.0/24", "10.1.0.0/16", "10.0.0.0/8"}},
		{"up from an entry", prefixes(table.Supernets(pfx("10.1.0.0/16"))),
			[]string{"10.1.0.0/16", "10.0.0.0/8"}},
		{"up from between", prefixes(table.Supernets(pfx("10.1.2.0/23"))),
			[]string{"10.1.0.0/16", "10.0.0.0/8"}},
		{"up from nowhere", prefixes(table.Supernets(pfx("11.0.0.0/24"))), nil},
		{"below the root", prefixes(table.Children(pfx("10.0.0.0/8"))),
			[]string{"10.1.0.0/16", "10.2.0.0/15"}},
		{"below an entry", prefixes(table.Children(pfx("10.1.0.0/16"))),
			[]string{"10.1.2.0/24", "10.1.3.0/24"}},
		{"below no entry", prefixes(table.Children(pfx("10.1.0.0/17"))),
			[]string{"10.1.2.0/24", "10.1.3.0/24"}},
		{"below a leaf", prefixes(table.Children(pfx("10.1.2.0/24"))), nil},
		{"IPv4 roots", prefixes(table.Children(pfx("0.0.0.0/0"))),
			[]string{"0.0.0.0/8", "10.0.0.0/8"}},
		{"IPv6 roots", prefixes(table.Children(pfx("::/0"))), []string{"2001:db8::/32"}},
		{"all inside", prefixes(table.Within(pfx("10.0.0.0/8"))),
			[]string{"10.1.0.0/16", "10.1.2.0/24", "10.1.3.0/24", "10.2.0.0/15"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if got := table.Held("ripencc:a"); !slices.Equal(got, []netip.Prefix{pfx("10.1.0.0/16"),
		pfx("10.1.3.0/24")}) {
		t.Errorf("Held(ripencc:a) = %v, want 10.1.0.0/16 and 10.1.3.0/24", got)
	}
	if got := table.Held("ripencc:none"); got != nil {
		t.Errorf("Held(ripencc:none) = %v, want nil", got)
	}
	if got := table.Held(""); len(got) != 0 {
		t.Errorf("Held(\"\") = %v, want none", got)
	}
	if e, ok := table.Get(pfx("10.1.0.0/16")); !ok || e.Country != "NL" {
		t.Errorf("Get(10.1.0.0/16) = %v, %v, want it in NL", e, ok)
	}
	if _, ok := table.Get(pfx("10.1.0.0/17")); ok {
		t.Error("Get(10.1.0.0/17) found an entry, want none")
	}
}

func TestEmptyTable(t *testing.T) {
	empty, err := Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []*Table{empty, {}} {
		if _, ok := table.Lookup(netip.MustParseAddr("1.2.3.4")); ok {
			t.Error("Lookup in an empty table found an entry")
		}
		got := prefixes(table.Children(pfx("0.0.0.0/0")))
		got = append(got, prefixes(table.Supernets(pfx("1.0.0.0/8")))...)
		if len(got) > 0 || len(table.Held("x")) > 0 || table.Len() != 0 {
			t.Errorf("an empty table yields %v", got)
		}
	}
}

func TestBuildDuplicates(t *testing.T) {
	table, err := Build([]Entry{
		{Prefix: pfx("10.0.0.0/8"), Registry: "iana"},
		{Prefix: pfx("10.0.0.0/8"), Holder: "arin:1", Registry: "arin"},
		{Prefix: pfx("10.0.0.0/8"), Holder: "arin:0", Registry: "arin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := table.Get(pfx("10.0.0.0/8")); table.Len() != 1 || e.Holder != "arin:1" {
		t.Errorf("%d entries, %v", table.Len(), e)
	}
}

func TestBuildRefuses(t *testing.T) {
	long := string(make([]byte, maxHolder+1))
	for name, e := range map[string]Entry{
		"no prefix":     {},
		"host bits":     {Prefix: netip.MustParsePrefix("10.0.0.1/8")},
		"4 in 6":        {Prefix: netip.MustParsePrefix("::ffff:10.0.0.0/104")},
		"long holder":   {Prefix: pfx("10.0.0.0/8"), Holder: long},
		"long registry": {Prefix: pfx("10.0.0.0/8"), Registry: long},
		"country":       {Prefix: pfx("10.0.0.0/8"), Country: "nl"},
	} {
		if _, err := Build([]Entry{e}); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTableProperties compares a table with what its definition says of a list
// of entries.
func TestTableProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := rapid.SliceOfN(entryGen(), 0, 40).Draw(rt, "entries")
		table, err := Build(entries)
		if err != nil {
			rt.Fatal(err)
		}
		var list []Entry
		seen := map[netip.Prefix]bool{}
		for e := range all(table) {
			list = append(list, e)
			seen[e.Prefix] = true
		}
		for _, e := range entries {
			if !seen[e.Prefix] {
				rt.Fatalf("%s is missing", e.Prefix)
			}
			delete(seen, e.Prefix)
			seen[e.Prefix] = true
		}
		if len(seen) != len(list) {
			rt.Fatalf("%d entries of %d prefixes", len(list), len(seen))
		}
		p := entryGen().Draw(rt, "p").Prefix
		inside := func(in, of netip.Prefix) bool {
			return of.Overlaps(in) && of.Bits() <= in.Bits()
		}
		var up, down, direct []netip.Prefix
		for _, e := range list {
			if inside(p, e.Prefix) {
				up = append([]netip.Prefix{e.Prefix}, up...)
			}
			if e.Prefix != p && inside(e.Prefix, p) {
				down = append(down, e.Prefix)
			}
		}
		for _, d := range down {
			if !slices.ContainsFunc(down, func(o netip.Prefix) bool {
				return o != d && inside(d, o)
			}) {
				direct = append(direct, d)
			}
		}
		of := func(seq func(func(Entry) bool)) (out []netip.Prefix) {
			for e := range seq {
				out = append(out, e.Prefix)
			}
			return out
		}
		if got := of(table.Supernets(p)); !slices.Equal(got, up) {
			rt.Fatalf("above %s: %v, want %v", p, got, up)
		}
		if got := of(table.Within(p)); !slices.Equal(got, down) {
			rt.Fatalf("within %s: %v, want %v", p, got, down)
		}
		if got := of(table.Children(p)); !slices.Equal(got, direct) {
			rt.Fatalf("below %s: %v, want %v", p, got, direct)
		}
		e, ok := table.Lookup(p.Addr())
		var want netip.Prefix
		for _, l := range list {
			if l.Prefix.Contains(p.Addr()) && (!want.IsValid() || l.Prefix.Bits() > want.Bits()) {
				want = l.Prefix
			}
		}
		if ok != want.IsValid() || ok && e.Prefix != want {
			rt.Fatalf("%s: %v, want %v", p.Addr(), e, want)
		}
		for _, e := range list {
			if held := table.Held(e.Holder); (e.Holder != "") != slices.Contains(held, e.Prefix) {
				rt.Fatalf("%q holds %v, and %s is its", e.Holder, held, e.Prefix)
			}
		}
	})
}

// entryGen draws entries that often nest and repeat.
func entryGen() *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		n := rapid.IntRange(0, 7).Draw(t, "n")
		e := Entry{Holder: rapid.SampledFrom([]string{"", "a:1", "a:2", "b:1"}).Draw(t, "holder"),
			Registry: "a", Country: "NL"}
		if rapid.Bool().Draw(t, "v6") {
			a := netip.AddrFrom16([16]byte{0x20, 1, byte(n), 0, 0, 0, 0, byte(n), byte(n << 5), 1})
			e.Prefix = netip.PrefixFrom(a,
				rapid.SampledFrom([]int{0, 12, 24, 32, 63, 64, 65, 67, 80, 128}).Draw(t,
					"bits")).Masked()
			return e
		}
		e.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n << 5), byte(n)}),
			rapid.SampledFrom([]int{0, 8, 10, 11, 16, 22, 24, 32}).Draw(t, "bits")).Masked()
		return e
	})
}

func TestWithRoots(t *testing.T) {
	in := []Entry{
		{Prefix: pfx("10.1.0.0/16"), Holder: "arin:a", Registry: "arin"},
		{Prefix: pfx("10.2.0.0/15"), Holder: "apnic:a", Registry: "apnic"},
		{Prefix: pfx("11.0.0.0/8"), Holder: "arin:b", Registry: "arin"},
		{Prefix: pfx("11.1.0.0/16"), Holder: "arin:c", Registry: "arin"},
		{Prefix: pfx("2001:400::/32"), Holder: "arin:a", Registry: "arin"},
		{Prefix: pfx("2a00:1450::/32"), Holder: "ripencc:a", Registry: "ripencc"},
		{Prefix: pfx("2000::/3"), Registry: "iana"},
	}
	table, err := Build(WithRoots(in))
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := table.Get(pfx("10.0.0.0/8")); !ok || e.Registry != "apnic" || e.Holder != "" {
		t.Errorf("10/8: %v %v", e, ok)
	}
	if e, _ := table.Get(pfx("11.0.0.0/8")); e.Holder != "arin:b" {
		t.Errorf("11/8: %v", e)
	}
	want := []string{"2001:400::/32", "2001:400::/23", "2000::/3"}
	if got := prefixes(table.Supernets(pfx("2001:400:1::/48"))); !slices.Equal(got, want) {
		t.Errorf("above 2001:400:1::/48: %v, want %v", got, want)
	}
	if got := prefixes(table.Supernets(pfx("2a00:1450::/32"))); !slices.Equal(got,
		[]string{"2a00:1450::/32", "2a00::/12", "2000::/3"}) {
		t.Errorf("above 2a00:1450::/32: %v", got)
	}
	if table.Len() != len(in)+3 {
		t.Errorf("%d entries", table.Len())
	}
}

// all yields all entries of a table, IPv4 first, in the order of their addresses, an entry before
// those inside it.
func all(t *Table) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range t.blocks {
			if !yield(t.entry(uint32(i))) {
				return
			}
		}
	}
}
