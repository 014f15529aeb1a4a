package hostile

import (
	"fmt"
	"net/netip"
	"strings"
)

// local are the loopback addresses that links lure to, besides those of the cases.
var local = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}

func addressCases() []Case {
	return []Case{privateLinks(), privateRedirects(), privateNames(), mixedNames(), rebinding()}
}

// spellings returns an IPv4 address in all notations of the WHATWG URL Standard ("IPv4
// parser"), and embedded in IPv6.
func spellings(a netip.Addr) []string {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	return []string{
		a.String(), fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		a.String() + ".",
		fmt.Sprintf("[::ffff:%s]", a), fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff),
		fmt.Sprintf("[::%s]", a),
		fmt.Sprintf("[64:ff9b::%s]", a), fmt.Sprintf("[2002:%x:%x::]", n>>16, n&0xffff),
		fmt.Sprintf("%%3%d%s", b[0]/100, a.String()[1:]),
		strings.ReplaceAll(a.String(), ".", "。"),
		strings.ReplaceAll(a.String(), "1", "①"),
	}
}

// privateLinks links to forbidden addresses, in every spelling.
func privateLinks() Case {
	c := Case{
		Name:  "private-links",
		About: "links to private, loopback and metadata addresses in every spelling", extra: local,
		Bound: Bound{Requests: 3, Want: []string{"/", "/good"}},
	}
	c.serve = func(x *exchange) {
		switch x.path {
		case "/":
			var hrefs []string
			for _, host := range append(append(spellings(x.c.forbid), spellings(local[0])...),
				"localhost", "LOCALHOST", "localhost.", "foo.localhost", "[::1]", "[::]",
				"[0:0:0:0:0:0:0:1]", "0.0.0.0", "0", "127.1", "169.254.169.254",
				"[fd00:ec2::254]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
				"[fe80::1]", "[fc00::1]", "255.255.255.255", "224.0.0.1",
			) {
				hrefs = append(hrefs, x.at(host, "/latest/meta-data/"))
			}
			x.page(linked("private", append(hrefs, "/good")...))
		case "/good":
			x.page(linked("good"))
		default:
			x.missing()
		}
	}
	return c
}

// privateRedirects redirects to forbidden addresses.
func privateRedirects() Case {
	c := Case{
		Name: "private-redirects", About: "redirects to private, loopback and metadata addresses",
		extra: local,
		Bound: Bound{Want: []string{"/", "/to/0", "/good"}},
	}
	lures := func(x *exchange) []string {
		return append(append(spellings(x.c.forbid), spellings(local[0])...), "localhost",
			"169.254.169.254", "[::1]", "[::]", "0.0.0.0")
	}
	c.Bound.Requests = 60
	c.serve = func(x *exchange) {
		to := lures(x)
		switch n := x.number(); {
		case strings.HasPrefix(x.path, "/to/") && n < len(to):
			x.redirect(302, x.at(to[n], "/latest/meta-data/"))
		case x.path == "/":
			var hrefs []string
			for i := range to {
				hrefs = append(hrefs, fmt.Sprintf("/to/%d", i))
			}
			x.page(linked("private", append(hrefs, "/good")...))
		case x.path == "/good":
			x.page(linked("good"))
		default:
			x.missing()
		}
	}
	return c
}

// privateNames has names with forbidden addresses.
func privateNames() Case {
	return namesCase("private-names",
		"names that resolve to private, loopback and metadata addresses", false,
		map[string]func(*Case) []netip.Addr{
			"near":     func(c *Case) []netip.Addr { return []netip.Addr{c.forbid} },
			"loopback": func(*Case) []netip.Addr { return []netip.Addr{local[0]} },
			"six":      func(*Case) []netip.Addr { return []netip.Addr{local[1]} },
			"mapped": func(c *Case) []netip.Addr {
				return []netip.Addr{netip.AddrFrom16(c.forbid.As16())}
			},
			"metadata": func(*Case) []netip.Addr {
				return []netip.Addr{netip.MustParseAddr("169.254.169.254")}
			},
			"zero": func(*Case) []netip.Addr {
				return []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
			},
			"nat64": func(*Case) []netip.Addr {
				return []netip.Addr{netip.MustParseAddr("64:ff9b::7f00:1")}
			},
		})
}

// mixedNames has names with an allowed address and some forbidden ones, in every order.
func mixedNames() Case {
	return namesCase("mixed-names", "names with a good address among private ones", true,
		map[string]func(*Case) []netip.Addr{
			"first": func(c *Case) []netip.Addr { return []netip.Addr{c.addr, c.forbid, local[0]} },
			"last": func(c *Case) []netip.Addr {
				return []netip.Addr{local[1], local[0], c.forbid, c.addr}
			},
		})
}

// namesCase links to hosts with the given addresses. reached means that the crawler must
// fetch from them.
func namesCase(name, about string, reached bool, addrs map[string]func(*Case) []netip.Addr) Case {
	c := Case{
		Name: name, About: about, extra: local,
		Hosts: []string{name + "." + Domain, "*." + name + "." + Domain},
		Bound: Bound{Requests: 3 + 2*len(addrs), Want: []string{"/", "/good"}},
	}
	for label := range addrs {
		if reached {
			c.Bound.Want = append(c.Bound.Want, label+"."+c.Hosts[0]+"/x")
		}
	}
	c.names = func(w *Web, host string, _ int) []netip.Addr {
		label, _, _ := strings.Cut(host, ".")
		if f := addrs[label]; f != nil {
			return f(w.caseOf(host))
		}
		return nil
	}
	c.serve = func(x *exchange) {
		switch x.path {
		case "/":
			hrefs := []string{"/good"}
			for label := range addrs {
				hrefs = append(hrefs, x.url(label+"."+c.Hosts[0]+"/x"))
			}
			x.page(linked(name, hrefs...))
		case "/good", "/x":
			x.page(linked(x.host + x.path))
		default:
			x.missing()
		}
	}
	return c
}

// rebinding has a name that resolves to an allowed address at the first lookup and to
// private ones later.
func rebinding() Case {
	c := Case{
		Name: "rebinding", About: "a name with an address that becomes private", extra: local,
		Hosts: []string{"rebinding." + Domain},
		Bound: Bound{Requests: 42},
	}
	c.names = func(w *Web, host string, nth int) []netip.Addr {
		if nth == 0 {
			return nil
		}
		return []netip.Addr{w.caseOf(host).forbid, local[0]}
	}
	c.serve = func(x *exchange) {
		switch {
		case x.path == "/":
			x.answer(200, htmlType+"Connection: close\r\n",
				linked("rebinding", numbered("/p/", 40)...))
		case strings.HasPrefix(x.path, "/p/"):
			x.answer(200, htmlType+"Connection: close\r\n", linked(x.path))
		default:
			x.missing()
		}
		x.over = true
	}
	return c
}
