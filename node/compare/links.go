package main

import (
	"net/url"
	"strings"
)

// skipped are the file extensions that the drivers do not follow: what
// documentation links to that is no page.
var skipped = func() map[string]bool {
	const list = "png jpg jpeg gif svg ico webp bmp pdf ps eps css js mjs json map xml rss atom txt gz bz2 xz zip tar tgz " +
		"woff woff2 ttf otf eot mp3 mp4 ogg ogv webm c h cc cpp hpp cxx hxx hs rs py pl rb java class jar go sh diff patch " +
		"md rst texi csv epub inv el rkt ss scrbl sty dtd xsl xsd properties conf cfg ini yml yaml toml tcl lua m v7 v8 mac " +
		"jam in am ac dot po mo so o a exe bin dll iso img deb rpm"
	m := map[string]bool{}
	for ext := range strings.FieldsSeq(list) {
		m[ext] = true
	}
	return m
}()

// rule says which links are followed: those to the seeds' hosts whose file
// extension is not skipped.
type rule struct{ hosts map[string]bool }

func newRule(seeds []string) (rule, error) {
	r := rule{hosts: map[string]bool{}}
	for _, s := range seeds {
		u, err := url.Parse(s)
		if err != nil {
			return r, err
		}
		r.hosts[strings.ToLower(u.Hostname())] = true
	}
	return r, nil
}

// follows says whether u is followed.
func (r rule) follows(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || !r.hosts[strings.ToLower(u.Hostname())] {
		return false
	}
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot < 0 || !skipped[strings.ToLower(name[dot+1:])]
}

// join resolves href against base; it returns "" if it is not to be followed.
func (r rule) join(base *url.URL, href string) string {
	href = strings.Trim(href, " \t\r\n\f")
	if href == "" || href[0] == '#' {
		return ""
	}
	u, err := base.Parse(href)
	if err != nil || !r.follows(u) {
		return ""
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String()
}

// linkAttribute names the attribute of an element that holds a link, or "".
func linkAttribute(tag string) string {
	switch tag {
	case "a", "area", "link", "base":
		return "href"
	case "frame", "iframe":
		return "src"
	}
	return ""
}
