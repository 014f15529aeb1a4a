package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// driverOptions are the parameters of a driver, bare or colly. A driver is a program that gets
// these as JSON in its last argument and prints a tally.
type driverOptions struct {
	Seeds    []string
	Parallel int // requests at once
	Agent    string
	MaxBody  int      // bytes read of one answer
	Skip     []string // file extensions that are not followed
}

// maxBody is the maximum number of bytes that both drivers read of one answer.
const maxBody = 32 << 20

// skipped are the file extensions that the drivers do not follow: documentation links to many
// files that are not pages.
const skipped = "png jpg jpeg gif svg ico webp bmp pdf ps eps css js mjs json map xml rss atom " +
	"txt gz bz2 xz zip tar tgz " +
	"woff woff2 ttf otf eot mp3 mp4 ogg ogv webm c h cc cpp hpp cxx hxx hs rs py pl rb java " +
	"class jar go sh diff patch " +
	"md rst texi csv epub inv el rkt ss scrbl sty dtd xsl xsd properties conf cfg ini yml yaml " +
	"toml tcl lua m v7 v8 mac " +
	"jam in am ac dot po mo so o a exe bin dll iso img deb rpm"

// newDriverOptions returns the options of a driver of a kind.
func newDriverOptions(kind string, seeds []string, parallel int) driverOptions {
	return driverOptions{Seeds: seeds, Parallel: parallel, Agent: "compare-" + kind,
		MaxBody: maxBody, Skip: strings.Fields(skipped)}
}

// text returns o as the argument of a driver.
func (o driverOptions) text() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b)
}

// RunBare runs the driver of the bare loop, with the argument that Run appended to
// Options.Self.
func RunBare(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want options", len(args))
	}
	var o driverOptions
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	t, err := crawlBare(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(t)
}

// rule decides which links are followed: those to the hosts of the seeds, unless their file
// extension is skipped.
type rule struct{ hosts, skip map[string]bool }

func newRule(o driverOptions) (rule, error) {
	r := rule{hosts: map[string]bool{}, skip: map[string]bool{}}
	for _, ext := range o.Skip {
		r.skip[ext] = true
	}
	for _, s := range o.Seeds {
		u, err := url.Parse(s)
		if err != nil {
			return r, err
		}
		r.hosts[strings.ToLower(u.Hostname())] = true
	}
	return r, nil
}

// follows reports whether u is followed.
func (r rule) follows(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || !r.hosts[strings.ToLower(u.Hostname())] {
		return false
	}
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot < 0 || !r.skip[strings.ToLower(name[dot+1:])]
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

// linkAttribute returns the attribute of an element that holds a link, or "".
func linkAttribute(tag string) string {
	switch tag {
	case "a", "area", "link", "base":
		return "href"
	case "frame", "iframe":
		return "src"
	}
	return ""
}
