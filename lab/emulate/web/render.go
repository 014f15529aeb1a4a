package web

import (
	"strconv"
	"strings"
)

// renderer writes one page.
type renderer struct {
	web  *Web
	site *site
	key  string
	base string // the directory to which links are relative
	dice dice
	buf  []byte
}

// render appends the HTML of page k to buf. Equal webs give equal bytes.
func (w *Web) render(buf []byte, s *site, k int) []byte {
	p := &s.pages[k]
	r := renderer{web: w, site: s, key: p.key, base: folder(p.key), buf: buf,
		dice: newDice(w.cfg.Seed, saltBody, uint64(s.id), uint64(k))}
	start := len(buf)
	r.head()
	r.nav(k)
	r.tree(k)
	r.mentions(k)
	r.oddities(k)
	for len(r.buf)-start < int(p.size)-130 {
		r.paragraph()
	}
	r.put("<footer><p>&copy; ")
	r.put(s.host)
	r.put(` <a href="mailto:hello@peerd.test">write</a> <a href="javascript:void(0)">top</a>`)
	r.put("</p></footer>\n</body>\n</html>\n")
	p.bytes.Store(int32(len(r.buf) - start))
	return r.buf
}

// folder returns the directory to which references on a page are relative.
func folder(key string) string {
	path, _, _ := strings.Cut(key, "?")
	return path[:strings.LastIndexByte(path, '/')+1]
}

func (r *renderer) put(s string)    { r.buf = append(r.buf, s...) }
func (r *renderer) number(n int)    { r.buf = strconv.AppendInt(r.buf, int64(n), 10) }
func (r *renderer) words(n int)     { r.buf = r.dice.title(r.buf, n) }
func (r *renderer) sentences(n int) { r.repeat(n, func() { r.buf = r.dice.sentence(r.buf) }) }

func (r *renderer) repeat(n int, f func()) {
	for range n {
		f()
	}
}

func (r *renderer) head() {
	r.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>")
	r.words(3)
	r.put(" &ndash; <a href=\"/ghost/title\"></title>\n")
	r.put("<link rel=\"stylesheet\" href=\"/style.css\">\n")
	if r.dice.chance(15) {
		r.base = "/"
		r.put("<base href=\"/\">\n")
	}
	r.put("<script>var menu = '<a href=\"/ghost/script\">no link</a>';</script>\n</head>\n<body>\n")
	r.put("<!-- <a href=\"/ghost/comment\">no link either</a> -->\n")
}

func (r *renderer) link(to ref) {
	r.put(`<a href="`)
	r.href(to)
	r.put(`">`)
	r.words(1 + r.dice.below(3))
	r.put("</a>")
}

// nav links to the first page, the parent, and the first sections.
func (r *renderer) nav(k int) {
	s := r.site
	r.put("<header><nav><ul>\n<li>")
	if r.dice.chance(4) {
		r.link(ref{s, "/index.html"})
	} else {
		r.link(ref{s, "/"})
	}
	r.put("</li>\n")
	for i := 1; i < len(s.pages) && i <= 4 && !s.isLeaf(i); i++ {
		r.put("<li>")
		r.link(ref{s, s.pages[i].key})
		r.put("</li>\n")
	}
	if k > 0 {
		r.put("<li class=up>")
		r.link(ref{s, s.pages[s.parent(k)].key})
		r.put("</li>\n")
	}
	r.put("</ul></nav></header>\n<h1>")
	r.words(2 + r.dice.below(4))
	r.put("</h1>\n")
}

// tree links to every child of page k, in a table, a list or plain text.
func (r *renderer) tree(k int) {
	from, to := r.site.children(k)
	if from == to {
		return
	}
	open, item, end, last := "<ul>\n", "<li>", "</li>\n", "</ul>\n"
	switch k % 3 {
	case 1:
		open, item, end, last = "<table>\n<tr><th>Name<th>Note\n", "<tr><td>", "<td>new\n",
			"</table>\n"
	case 2:
		open, item, end, last = "<div>\n", "<p>See ", " for more.</p>\n", "</div>\n"
	}
	r.put(open)
	for c := from; c < to; c++ {
		if !r.site.pages[c].foreign {
			r.put(item)
			r.link(r.site.linkTo(c))
			r.put(end)
		}
	}
	r.put(last)
}

// mentions writes paragraphs with links within this site and to others.
func (r *renderer) mentions(k int) {
	for _, to := range r.site.extra[int32(k)] {
		r.put("<p>")
		r.sentences(1)
		r.link(to)
		r.put("</p>\n")
	}
	for range 2 + r.dice.below(5) {
		r.put("<p>")
		r.sentences(1 + r.dice.below(2))
		r.link(r.site.somePage(&r.dice))
		r.put("</p>\n")
	}
	sites := r.web.sites
	if len(sites) > 1 && r.dice.chance(4) {
		for range 1 + r.dice.below(2) {
			to := sites[other(&r.dice, r.site.id, len(sites))]
			r.put("<blockquote>")
			if r.dice.chance(2) {
				r.link(ref{to, "/"})
			} else {
				r.link(to.somePage(&r.dice))
			}
			r.put("</blockquote>\n")
		}
	}
}

// oddities writes links that do not lead to a page.
func (r *renderer) oddities(k int) {
	s := r.site
	odd := func(key string) {
		r.put("<p><small>")
		r.link(ref{s, key})
		r.put("</small></p>\n")
	}
	if k%23 == 3 {
		odd("/missing/" + names[k%len(names)] + ".html")
	}
	if k == 0 && s.id%3 == 1 {
		odd("/cgi-bin/broken")
	}
	if k%19 == 2 {
		odd("/img/photo-" + strconv.Itoa(k) + ".png")
		r.put("<img src=\"/img/photo-0.png\" alt=\"\">\n")
	}
	if k%47 == 4 {
		odd("/files/paper-" + strconv.Itoa(k) + ".pdf")
	}
	if s.robots != robotsNone && k%9 == 1 {
		odd(closedTree + names[k%len(names)] + "/")
		odd(innerTree + "report.html")
	}
	if s.robots == robotsPatterns && k%9 == 2 {
		odd("/list?sort=name")
		odd("/run/report.cgi")
	}
}

func (r *renderer) paragraph() {
	r.put("<p>")
	r.sentences(3 + r.dice.below(4))
	r.put("</p>\n")
}
