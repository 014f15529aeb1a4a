package registry

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

func TestParse(t *testing.T) {
	const text = `# conditions of use
2|ripencc|1790632799|9|19700101|20260928|+0200
ripencc|*|ipv4|*|4|summary
ripencc|*|asn|*|1|summary
ripencc|*|ipv6|*|4|summary
ripencc|EU|asn|7|1|19930901|allocated|87cfacbc-5809-4ddd-a668-06393fbd23d6
ripencc|NL|ipv4|192.0.2.0|256|19930901|allocated|a
ripencc|EU|ipv4|198.51.100.0|768|19930901|assigned|a|extra|fields
ripencc||ipv4|203.0.113.0|256||available
ripencc|ZZ|ipv4|233.252.0.0|256|00000000|reserved|

ripencc|DE|ipv6|2001:db8::|32|20100101|allocated|b
ripencc|fr|ipv6|2001:db9::|29|20100101|allocated
ripencc|DE|ipv6|2001:dc0::|29|20100101|assigned|b
ripencc||ipv6|2001:dc8::|29||available|
`
	f, err := Parse(strings.NewReader(text), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if f.Header != (Header{Version: "2", Registry: "ripencc", Serial: "1790632799", End: "20260928",
		Records: 9, Summary: 9}) {
		t.Errorf("Header = %+v", f.Header)
	}
	if f.Records != 9 || f.IPv4 != 4 || f.IPv6 != 3 || f.ASN != 1 || f.Free != 3 || f.Faulty != 1 {
		t.Errorf("Parse() = %+v, want 9 records, 3 free, 1 faulty", f)
	}
	if len(f.Faults) != 1 ||
		f.Faults[0].String() != "line 13: 2001:db9::/29 has bits behind its length" {
		t.Errorf("Faults = %v, want bits behind the length in line 13", f.Faults)
	}
	want := []Entry{
		{pfx("192.0.2.0/24"), "ripencc:a", "ripencc", "NL"},
		{pfx("198.51.100.0/23"), "ripencc:a", "ripencc", "EU"},
		{pfx("198.51.102.0/24"), "ripencc:a", "ripencc", "EU"},
		{pfx("203.0.113.0/24"), "", "ripencc", ""},
		{pfx("233.252.0.0/24"), "", "ripencc", "ZZ"},
		{pfx("2001:db8::/32"), "ripencc:b", "ripencc", "DE"},
		{pfx("2001:dc0::/29"), "ripencc:b", "ripencc", "DE"},
		{pfx("2001:dc8::/29"), "", "ripencc", ""},
	}
	if !slices.Equal(f.Entries, want) {
		t.Errorf("Entries = %v, want %v", f.Entries, want)
	}
}

// IANA's file names the registries as holders: the blocks are theirs.
func TestParseIANA(t *testing.T) {
	f, err := Parse(strings.NewReader("2|iana|20190911|2|19830101|20190612|+0000\n"+
		"iana|ZZ|ipv4|1.0.0.0|16777216|20100119|allocated|apnic|iana\n"+
		"iana|ZZ|ipv4|0.0.0.0|16777216|19830101|reserved|ietf|iana\n"), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{pfx("1.0.0.0/8"), "", "apnic", ""}, {pfx("0.0.0.0/8"), "", "ietf", ""}}
	if !slices.Equal(f.Entries, want) || f.Free != 1 {
		t.Errorf("Parse() = %+v, want entries %v and 1 free", f, want)
	}
}

func TestParseFaults(t *testing.T) {
	const good = "arin|US|ipv4|192.0.2.0|256|20100101|allocated|x\n"
	for _, c := range []struct{ line, want string }{
		{"arin|US|ipv4|192.0.2.0|256|20100101", "6 fields, want at least 7"},
		{"nonsense", "1 fields, want at least 7"},
		{"\x00\xff|US|ipv4|192.0.2.0|256|20100101|allocated|x", "is no registry"},
		{"arin|USA|ipv4|192.0.2.0|256|20100101|allocated|x", `"USA" is no country`},
		{"arin|US|ipv5|192.0.2.0|256|20100101|allocated|x", `"ipv5" is no type`},
		{"arin|US|ipv4|192.0.2.0|256|20100101|given|x", `"given" is no status`},
		{"arin|US|ipv4|192.0.2|256|20100101|allocated|x", `"192.0.2" is no IPv4 address`},
		{"arin|US|ipv4|2001:db8::|256|20100101|allocated|x", `"2001:db8::" is no IPv4 address`},
		{"arin|US|ipv4|192.0.2.0|0|20100101|allocated|x", `"0" is no number of IPv4 addresses`},
		{"arin|US|ipv4|192.0.2.0|-1|20100101|allocated|x", `"-1" is no number of IPv4 addresses`},
		{"arin|US|ipv4|192.0.2.0|99999999999999999999|20100101|allocated|x",
			`"99999999999999999999" is no number`},
		{"arin|US|ipv4|255.255.255.0|257|20100101|allocated|x",
			"257 addresses from 255.255.255.0 on are more than there are"},
		{"arin|US|ipv6|192.0.2.0|24|20100101|allocated|x", `"192.0.2.0" is no IPv6 address`},
		{"arin|US|ipv6|::ffff:192.0.2.0|120|20100101|allocated|x", `is no IPv6 address`},
		{"arin|US|ipv6|fe80::%eth0|64|20100101|allocated|x", `is no IPv6 address`},
		{"arin|US|ipv6|2001:db8::|129|20100101|allocated|x", `"129" is no prefix length`},
		{"arin|US|ipv6|2001:db8::1|64|20100101|allocated|x",
			"2001:db8::1/64 has bits behind its length"},
		{"arin|US|asn|x|y|20100101|allocated|x", `"y" is no number of AS numbers`},
		{"arin|US|ipv4|192.0.2.0|256|20100101|allocated|" + strings.Repeat("x", 200),
			"is no opaque-id"},
		{"arin|US|ipv4|192.0.2.0|256|20100101|allocated|a\x1bb", "is no opaque-id"},
		{"arin|US|ipv4|192.0.2.0|256|20100101|allocated|" + strings.Repeat("x", 5000),
			"longer than 4096 bytes"},
		{"arin|*|ipv7|*|1|summary", "summary line"},
	} {
		f, err := Parse(strings.NewReader("2|arin|1|1||20100101|+0\n"+c.line+"\n"+good),
			DefaultLimits())
		if err != nil {
			t.Errorf("Parse(%.60q): %v", c.line, err)
			continue
		}
		if f.Faulty == 0 || f.Faults[0].Line != 2 || !strings.Contains(f.Faults[0].Reason,
			c.want) || len(f.Entries) != 1 {
			t.Errorf("%.60q: %d entries, %v, want line 2: %s", c.line, len(f.Entries), f.Faults,
				c.want)
		}
	}
}

func TestParseWhole(t *testing.T) {
	record := func(i int) string {
		return fmt.Sprintf("arin|US|ipv4|10.%d.%d.0|256|20100101|allocated|x\n", i/256, i%256)
	}
	file := func(announced, there int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "2.3|arin|1|%d||20100101|+0\n", announced)
		for i := range there {
			b.WriteString(record(i))
		}
		return b.String()
	}
	small := DefaultLimits()
	small.Records, small.Bytes, small.Faults = 10, 2000, 2
	for _, c := range []struct {
		name, text string
		lim        Limits
		err        error
		faulty     int
	}{
		{"whole", file(100, 100), DefaultLimits(), nil, 0},
		{"a little short", file(100, 95), DefaultLimits(), nil, 1},
		{"cut", file(100, 94), DefaultLimits(), ErrTruncated, 0},
		{"more than announced", file(100, 300), DefaultLimits(), nil, 1},
		{"cut by the summary", "arin|*|ipv4|*|100|summary\n" + file(0, 50), DefaultLimits(),
			ErrTruncated, 1},
		{"no version line", record(1), DefaultLimits(), nil, 1},
		{"empty", "", DefaultLimits(), ErrFile, 0},
		{"comments only", "# a\n#b\n", DefaultLimits(), ErrFile, 0},
		{"a web page", "<!DOCTYPE html>\n<html>\n", DefaultLimits(), ErrFile, 2},
		{"no line end", strings.TrimSuffix(file(2, 2), "\n"), DefaultLimits(), nil, 0},
		{"CRLF", strings.ReplaceAll(file(2, 2), "\n", "\r\n"), DefaultLimits(), nil, 0},
		{"too many", file(11, 11), small, ErrFile, 0},
		{"too long", strings.Repeat("#\n", 1001), small, ErrFile, 0},
		{"one endless line", strings.Repeat("x", 5000), small, ErrFile, 0},
	} {
		f, err := Parse(strings.NewReader(c.text), c.lim)
		if !errors.Is(err, c.err) || err != nil && c.err == nil || f.Faulty != c.faulty {
			t.Errorf("%s: %v, %d faults %v; want %v, %d", c.name, err, f.Faulty, f.Faults, c.err,
				c.faulty)
		}
		if len(f.Faults) > c.lim.Faults {
			t.Errorf("%s: %d faults stored, want at most the limit", c.name, len(f.Faults))
		}
	}
	broken := errors.New("broken")
	if _, err := Parse(&failing{strings.NewReader(file(9, 9)), broken},
		DefaultLimits()); !errors.Is(err, broken) {
		t.Errorf("Parse(failing reader): %v, want the reader's error", err)
	}
}

// failing reads and then fails.
type failing struct {
	r   *strings.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	if f.r.Len() == 0 {
		return 0, f.err
	}
	return f.r.Read(b)
}

// A count of addresses gives prefixes that cover exactly them, in order, and
// as few as can be: no two could be one.
func TestIPv4Blocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Uint32().Draw(t, "start")
		n := rapid.OneOf(rapid.Uint64Range(1, 1<<32-uint64(start)),
			rapid.Uint64Range(1, min(1<<20, 1<<32-uint64(start)))).Draw(t, "n")
		a := netip.AddrFrom4([4]byte{byte(start >> 24), byte(start >> 16), byte(start >> 8),
			byte(start)})
		blocks, reason := ipv4Blocks(nil, a.String(), fmt.Sprint(n))
		if reason != "" {
			t.Fatal(reason)
		}
		next, sum := a, uint64(0)
		for i, b := range blocks {
			if b.Addr() != next || b != b.Masked() {
				t.Fatalf("block %d = %s, want one at %s", i, b, next)
			}
			size := uint64(1) << (32 - b.Bits())
			sum += size
			v := uint64(next.As4()[0])<<24 | uint64(next.As4()[1])<<16 | uint64(
				next.As4()[2])<<8 | uint64(next.As4()[3])
			v += size
			next = netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
			if i > 0 && blocks[i-1].Bits() == b.Bits() && b.Bits() > 0 {
				if up, _ := b.Addr().Prefix(b.Bits() - 1); up.Contains(blocks[i-1].Addr()) {
					t.Fatalf("blocks %s and %s could be one", blocks[i-1], b)
				}
			}
		}
		if sum != n {
			t.Fatalf("%d addresses, want %d", sum, n)
		}
	})
}

var delegatedDir = flag.String("delegated-dir", "",
	"directory of the registries' delegated-* files; the test that reads them needs it")

// TestRealFiles reads files of the registries.
func TestRealFiles(t *testing.T) {
	dir := *delegatedDir
	if dir == "" {
		t.Skip("skipped: no files of the registries, set -delegated-dir")
	}
	files, err := filepath.Glob(filepath.Join(dir, "delegated-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no delegated-* in %s: %v", dir, err)
	}
	var all []Entry
	for _, name := range files {
		in, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(in, DefaultLimits())
		in.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %s, %d records, %d ipv4, %d ipv6, %d asn, %d free, %d entries, %d faults %v",
			filepath.Base(name), f.Header.Registry, f.Records, f.IPv4, f.IPv6, f.ASN, f.Free,
			len(f.Entries), f.Faulty, f.Faults)
		if f.Records != f.IPv4+f.IPv6+f.ASN {
			t.Errorf("%s: %d records are broken", name, f.Records-f.IPv4-f.IPv6-f.ASN)
		}
		all = append(all, f.Entries...)
	}
	table, err := Build(WithRoots(all))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries, %d with roots", len(all), table.Len())
}

// FuzzParse verifies that the parser respects its limits, and that its entries can be stored
// and built into a table.
func FuzzParse(f *testing.F) {
	for _, file := range []string{
		"2|ripencc|1|2||20260928|+0200\n" +
			"ripencc|NL|ipv4|192.0.2.0|768|19930901|allocated|a\n" +
			"ripencc|NL|ipv6|2001:db8::|32|19930901|allocated|a\n",
		"2.3|apnic|1|1||x|+1\napnic|*|ipv4|*|1|summary\napnic||ipv4|1.0.0.1|3||available|\n",
		"#\n\n||||||\n|||||summary\n" +
			"iana|ZZ|ipv4|1.0.0.0|16777216|20100119|allocated|apnic|iana",
		"a|ZZ|ipv4|0.0.0.0|4294967296|||allocated\na||ipv4|0.0.0.1|4294967295||assigned|~",
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lim := DefaultLimits()
		lim.Faults, lim.Line = 3, 100
		file, err := Parse(strings.NewReader(string(data)), lim)
		if file == nil || len(file.Faults) > 3 || file.Faulty < len(file.Faults) {
			t.Fatalf("%+v", file)
		}
		if err != nil && !errors.Is(err, ErrFile) {
			t.Fatal(err)
		}
		table, err := Build(WithRoots(file.Entries))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range file.Entries {
			if _, ok := table.Get(e.Prefix); !ok {
				t.Fatalf("%v is missing", e)
			}
		}
	})
}
