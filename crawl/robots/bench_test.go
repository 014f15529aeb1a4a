package robots

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jimsmart/grobotstxt"

	"peerd/store"
)

// tenKB returns a file of about 10 kB: 300 rules, a tenth of them with a star.
func tenKB() string {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := range 300 {
		star := ""
		if i%10 == 0 {
			star = "*"
		}
		fmt.Fprintf(&b, "Disallow: /%sfolder/%d/private%d\n", star, i, i)
	}
	return b.String()
}

const benchURL = store.URL("https://example.org/folder/299/some/ordinary/page.html?x=1")

func BenchmarkCompile10kB(b *testing.B) {
	body := tenKB()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		ok(body)
	}
}

func BenchmarkAllowed10kB(b *testing.B) {
	r := ok(tenKB())
	b.ReportAllocs()
	for b.Loop() {
		r.Allowed("peerd", benchURL)
	}
}

// BenchmarkLibrary10kB measures the library, which parses the file for each URL.
func BenchmarkLibrary10kB(b *testing.B) {
	body := tenKB()
	for b.Loop() {
		grobotstxt.AgentAllowed(body, "peerd", string(benchURL))
	}
}

// BenchmarkHostile measures one call with the most expensive files.
func BenchmarkHostile(b *testing.B) {
	for _, line := range []string{
		"Allow:*ab*b\n", "Disallow:*b\n", "Allow:*" + strings.Repeat("a", 70) + "b\n",
		"Disallow:" + strings.Repeat("*a", 8000) + "b\n", "Disallow:/a\n",
	} {
		r := ok("User-agent: *\n" + strings.Repeat(line, MaxBody/len(line)-2))
		u := store.URL("http://h/" + strings.Repeat("a", 2000))
		b.Run(line[:min(len(line)-1, 20)], func(b *testing.B) {
			for b.Loop() {
				r.Allowed("peerd", u)
			}
		})
	}
}
