package canon

import "testing"

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"http://example.org/", "HTTPS://Ex.org:443/%7e/../a?b#c", "http://[::1]:80/",
		"http://1.2.3.4/%", "http://bücher.example/", "http://[::1.2.3.4]/", "http://a%2e/",
		"http:\\\\x\\y", "http://XN--a.%78n--/", "http://xn--.\u064a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fast, ferr := Parse(raw)
		slow, serr := parse(raw)
		same(t, raw, fast, slow, ferr, serr)
		if ferr == nil {
			checkCanonical(t, fast)
		}
	})
}

func FuzzJoin(f *testing.F) {
	f.Add("http://example.org/a/b?c", "", "../d")
	f.Add("http://example.org/a/b?c", "/x/", "?e#f")
	f.Add("https://1.2.3.4:8080/", "ftp://x", "//h/")
	f.Fuzz(func(t *testing.T, page, href, ref string) {
		u, err := Parse(page)
		if err != nil {
			return
		}
		for _, b := range []Base{BaseOf(u), BaseOf(u).Rebase(href)} {
			fast, ferr := b.Join(ref)
			slow, serr := b.join(ref)
			same(t, b.text+" + "+ref, fast, slow, ferr, serr)
			if ferr == nil {
				checkCanonical(t, fast)
			}
		}
	})
}

// FuzzParseWHATWG verifies that the result of ParseWHATWG is parsed to itself.
func FuzzParseWHATWG(f *testing.F) {
	f.Add("", "http://u:p@EXAMPLE.org:80/%7e/../a?b#c")
	f.Add("http://1.\u064a/", "//2.xn--mhb./\\x")
	f.Add("mailto:a@b", "#x")
	f.Fuzz(func(t *testing.T, base, ref string) {
		p, err := ParseWHATWG(base, ref)
		if err != nil {
			if p != (Parts{}) {
				t.Fatalf("%q + %q: %v, but %+v", base, ref, err, p)
			}
			return
		}
		if p.Protocol != "http:" && p.Protocol != "https:" || len(p.Href) > maxWHATWGInput/2 {
			return
		}
		if again, err := ParseWHATWG("", p.Href); err != nil || again != p {
			t.Fatalf("%q + %q: %+v, then %+v, %v", base, ref, p, again, err)
		}
	})
}

func FuzzRules(f *testing.F) {
	f.Add("http://example.org/a;jsessionid=1/(S(lit3py55t21z5v55vlm25s55))/index.html?b&"+
		"sid=0123456789abcdef&utm_x=1&a&ref", byte(7))
	f.Add("http://example.org/..;jsessionid=1/;?&=&phpsessid", byte(1))
	f.Fuzz(func(t *testing.T, raw string, bits byte) {
		u, err := Parse(raw)
		if err != nil {
			return
		}
		r := Rules{
			DropSessions: bits&1 != 0, DropTracking: bits&2 != 0, SortQuery: bits&4 != 0,
		}
		checkApplied(t, r, u)
	})
}
