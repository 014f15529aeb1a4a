package tool

import (
	"errors"
	"strings"

	"peerd/crawl/canon"
	"peerd/crawl/robots"
)

// Agent is the product token that peers go by in a robots.txt.
const Agent = "peerd"

// MaxRobots is how much of a robots.txt counts, in bytes.
const MaxRobots = robots.MaxBody

// Robots is a robots.txt. It is safe for concurrent use.
type Robots struct {
	rules *robots.Rules
	lines []string
}

// RobotsAnswer says whether a URL may be fetched.
type RobotsAnswer struct {
	URL     string `json:"url"`
	Allowed bool   `json:"allowed"`
	// Line is the line of the file that decides, from 1; 0 if none does.
	Line  int    `json:"line"`
	Error string `json:"error,omitempty"` // it is no URL
	// Text is what stands in that line.
	Text string `json:"-"`
}

// NewRobots compiles a file of at most MaxRobots bytes; more is not read.
func NewRobots(body []byte) *Robots {
	body = body[:min(len(body), MaxRobots)]
	text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
	return &Robots{
		rules: robots.Verdict{Status: 200, Body: body}.Compile(),
		lines: strings.Split(text, "\n"),
	}
}

// Ask says whether an agent may fetch a URL, or a path on the file's own host,
// which begins with "/".
func (r *Robots) Ask(agent, url string) RobotsAnswer {
	a := RobotsAnswer{URL: url}
	full := url
	if strings.HasPrefix(url, "/") {
		full = "http://robots.invalid" + url
	}
	u, err := canon.Parse(full)
	if err != nil {
		a.Error = reason(err, false)
		return a
	}
	a.Allowed, a.Line = r.rules.Match(agent, u)
	if a.Line > 0 && a.Line <= len(r.lines) {
		a.Text = strings.TrimSpace(r.lines[a.Line-1])
	}
	return a
}

// CheckAgent says what is wrong with a product token: nothing if it is one.
func CheckAgent(agent string) error {
	if strings.TrimSpace(agent) == "" {
		return errors.New("want a product token such as " + Agent)
	}
	return nil
}
