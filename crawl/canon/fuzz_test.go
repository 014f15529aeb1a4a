package canon

import "testing"

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"http://example.org/", "HTTPS://Ex.org:443/%7e/../a?b#c", "http://[::1]:80/", "http://1.2.3.4/%", "http://bücher.example/",
		"http://[::1.2.3.4]/", "http://a%2e/", "http:\\\\x\\y",
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
