package hostile

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func textCases() []Case {
	return []Case{charsets(), bases(), idn(), references()}
}

// encoded is a page in a character set, which may be declared.
type encoded struct {
	path, header, meta string
	link               string // what the page links to, before it is encoded
	enc                encoding.Encoding
}

// charsets has a page for each character set; its link must be requested in UTF-8.
func charsets() Case {
	utf16be := unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	utf16le := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	pages := []encoded{
		{"/utf16le", "", "", "/le/ключ", utf16le},
		{"/utf16be", "", "", "/be/鍵", utf16be},
		{"/header-1251", "; charset=windows-1251", "", "/1251/привет", charmap.Windows1251},
		{"/meta-1251", "", "windows-1251", "/meta1251/мир", charmap.Windows1251},
		{"/sjis", "; charset=Shift_JIS", "", "/sjis/日本語", japanese.ShiftJIS},
		{"/latin1", "; charset=iso-8859-1", "", "/latin1/grün", charmap.ISO8859_1},
		{"/wrong-meta", "; charset=utf-8", "windows-1251", "/wrong/ясно", encoding.Nop},
		{"/none-utf8", "", "", "/none/größe", encoding.Nop},
		{"/none-1252", "", "", "/none1252/größe", charmap.Windows1252},
		{"/quoted", `; charset="utf-8"`, "", "/quoted/ñ", encoding.Nop},
	}
	c := Case{Name: "charsets",
		About: "pages in many character sets, with links that are not ASCII"}
	bodies := map[string]string{}
	var hrefs []string
	for i, p := range pages {
		meta := ""
		if p.meta != "" {
			meta = "<meta charset=" + p.meta + ">"
		}
		body, err := p.enc.NewEncoder().String(
			fmt.Sprintf(
				"<html><head>%s<title>%s</title></head><p>plain words <a href=\"%s\">x</a></html>",
				meta, p.link, p.link))
		if err != nil {
			// the character set lacks a letter of the link
			panic(fmt.Sprintf("hostile: %s: %v", p.path, err))
		}
		bodies[p.path] = body
		hrefs = append(hrefs, p.path)
		c.Bound.Want = append(c.Bound.Want, (&url.URL{Path: pages[i].link}).EscapedPath())
	}
	c.Bound.Requests = 2 + 2*len(pages)
	c.serve = func(x *exchange) {
		i := slices.IndexFunc(pages, func(p encoded) bool { return p.path == x.path })
		switch {
		case i >= 0:
			x.answer(200, "Content-Type: text/html"+pages[i].header+"\r\n", bodies[x.path])
		case x.path == "/":
			x.page(linked("charsets", hrefs...))
		case x.path == "/robots.txt":
			x.missing()
		default:
			x.page(linked(x.path))
		}
	}
	return c
}

// bases has pages with <base href>.
func bases() Case {
	c := Case{
		Name: "base", About: "<base href> relative, twice, on another host, unusable",
		Hosts: []string{"base." + Domain, "other.base." + Domain},
	}
	pages := map[string]func(x *exchange) string{
		"/relative/": func(*exchange) string {
			return `<base href="deep/dir/"><a href="1.html">x</a>`
		},
		"/twice/": func(*exchange) string {
			return `<base href="/first/"><base href="/second/"><a href="2.html">x</a>`
		},
		"/after/": func(*exchange) string {
			return `<a href="3.html">x</a><base href="/late/">`
		},
		"/elsewhere/": func(x *exchange) string {
			return `<base href="` + x.url(c.Hosts[1]+"/") + `"><a href="4.html">x</a>`
		},
		"/unusable/": func(*exchange) string {
			return `<base href="http://["><a href="5.html">x</a>`
		},
		"/javascript/": func(*exchange) string {
			return `<base href="javascript:1"><a href="6.html">x</a>`
		},
		"/target/": func(*exchange) string {
			return `<base target=_top><base href="/ok/"><a href="7.html">x</a>`
		},
	}
	c.Bound = Bound{Requests: 20, Never: []string{"*/second/*"}, Want: []string{
		"/relative/deep/dir/1.html", "/first/2.html", "/late/3.html", c.Hosts[1] + "/4.html",
		"/unusable/5.html", "/javascript/6.html", "/ok/7.html"}}
	c.serve = func(x *exchange) {
		body := pages[x.path]
		switch {
		case body != nil:
			x.page(body(x))
		case x.path == "/":
			var hrefs []string
			for p := range pages {
				hrefs = append(hrefs, p)
			}
			x.page(linked("base", hrefs...))
		case x.path == "/robots.txt":
			x.missing()
		default:
			x.page(linked(x.host + x.path))
		}
	}
	return c
}

// idn has hosts and paths that are not ASCII.
func idn() Case {
	c := Case{
		Name: "idn", About: "hosts and paths that are not ASCII",
		Hosts: []string{"idn." + Domain, "xn--bcher-kva.idn." + Domain, "xn--e1afmkfd.idn." +
			Domain},
		Bound: Bound{Requests: 12, Never: []string{"*poison*"}, Want: []string{
			"xn--bcher-kva.idn." + Domain + "/%C3%A4", "xn--bcher-kva.idn." + Domain + "/upper",
			"xn--e1afmkfd.idn." + Domain + "/%D0%BF?q=%D1%8F"}},
	}
	c.serve = func(x *exchange) {
		switch x.path {
		case "/":
			x.page(linked("idn", x.at("bücher.idn."+Domain, "/ä"),
				x.at("BÜCHER.IDN."+strings.ToUpper(Domain), "/upper"),
				x.at("пример.idn."+Domain, "/п?q=я"), x.at("xn--a|b.idn."+Domain, "/poison"),
				x.at("xn--a\u0308.idn."+Domain, "/poison"),
				x.at(strings.Repeat("ü", 80)+".idn."+Domain, "/poison"),
				x.at("a..idn."+Domain, "/poison"), x.at("b%00.idn."+Domain, "/poison")))
		case "/robots.txt":
			x.missing()
		default:
			x.page(linked(x.host + x.target))
		}
	}
	return c
}

// references has links in every spelling, with user names, and with other schemes.
func references() Case {
	host := "references." + Domain
	c := Case{Name: "references",
		About: "links in every spelling, with passwords, and with other schemes"}
	c.Bound = Bound{Requests: 16, Never: []string{"*evil*", "*passwd*"},
		Want: []string{"/plain", "/entity?a=1&b=2", "/new-line", "/dots/x", "/case",
			"/trailing-dot", "/back/slash", "/blank%20s"}}
	c.serve = func(x *exchange) {
		switch x.path {
		case "/":
			hrefs := []string{
				"/plain#a", "/plain#b", "/entity?a=1&b=2", "\n/new\n-line\t", "/a/./b/../../dots/x",
				"HTTP://" + strings.ToUpper(host) + ":" + fmt.Sprint(x.web.port) + "/case",
				x.at(host+".", "/trailing-dot"), "\\back\\slash", "/blank s", "ftp://" + host +
					"/evil", "file:///etc/passwd", "gopher://" + host + "/evil",
				"javascript:location='/evil'", "data:text/html,<a href=/evil>", "vbscript:evil",
				"mailto:evil@" + host, "tel:+1", "ws://" + host + "/evil",
				"view-source:" + x.url("/evil"), "about:blank", "blob:" + x.url("/evil"),
				"http://" + host + ":0/evil", "http://" + host + ":65536/evil",
				"http://user:secret@" + host + ":" + fmt.Sprint(x.web.port) + "/evil",
				"http://user@" + host + ":" + fmt.Sprint(x.web.port) + "/evil",
				"http://" + strings.Repeat("a@", 2000) + host + "/evil",
				"/" + strings.Repeat("evil", 10_000), "http:///", "http://", "//", "?", "#",
			}
			x.answer(200, htmlType+
				"Set-Cookie: id=evil; Path=/\r\nWWW-Authenticate: Basic realm=x\r\n",
				linked("references", hrefs...))
		case "/robots.txt":
			x.missing()
		default:
			x.page(linked(x.target))
		}
	}
	return c
}
