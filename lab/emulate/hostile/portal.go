package hostile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// portal serves http://hostile.test, for manual tests of a crawler. Its paths:
//
//	/         all cases, with links to their seeds
//	/hosts    the names as a hosts file
//	/log      all requests, one JSON object per line
//	/results  the faults in each case, from Judge
func (x *exchange) portal() {
	const plain = "Content-Type: text/plain; charset=utf-8\r\n"
	switch x.path {
	case "/":
		x.page(x.web.index())
	case "/hosts":
		var s strings.Builder
		names := x.web.Names()
		for _, host := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&s, "%v %s\n", names[host], host)
		}
		x.answer(200, plain, s.String())
	case "/log":
		var s strings.Builder
		enc := json.NewEncoder(&s)
		for _, h := range x.web.Log() {
			_ = enc.Encode(h) // a builder never fails
		}
		x.answer(200, plain, s.String())
	case "/results":
		var s strings.Builder
		for _, c := range x.web.cases {
			faults := x.web.Judge(c.Name, time.Minute)
			fmt.Fprintf(&s, "%s: %d faults\n", c.Name, len(faults))
			for _, f := range faults {
				fmt.Fprintf(&s, "\t%s\n", f)
			}
		}
		x.answer(200, plain, s.String())
	default:
		x.missing()
	}
}

func (w *Web) index() string {
	var s strings.Builder
	s.WriteString("<!doctype html><title>A hostile web</title>\n<h1>A hostile web</h1>\n<ul>\n")
	for _, c := range w.cases {
		fmt.Fprintf(&s, "<li>%s: %s", escape(c.Name), escape(c.About))
		for _, u := range w.Seeds(c.Name) {
			fmt.Fprintf(&s, " <a href=\"%s\">%s</a>", escape(u), escape(u))
		}
		s.WriteString("</li>\n")
	}
	s.WriteString("</ul>\n")
	return s.String()
}
