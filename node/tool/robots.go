package tool

import (
	"errors"
	"strings"

	"peerd/crawl/canon"
	"peerd/crawl/robots"
)

// Agent is the product token of peers in a robots.txt.
const Agent = "peerd"

// MaxRobots is the number of bytes of a robots.txt that are read.
const MaxRobots = robots.MaxBody

// Robots is a robots.txt. It is safe for concurrent use.
type Robots struct {
	rules *robots.Rules
	lines []string
}

// RobotsResult is whether a URL may be fetched.
type RobotsResult struct {
	URL     string `json:"url"`
	Allowed bool   `json:"allowed"`
	// Line is the line of the file that decides, from 1; 0 if none does.
	Line  int    `json:"line"`
	Error string `json:"error,omitempty"` // the URL is invalid
	// Text is the content of that line.
	Text string `json:"-"`
}

// NewRobots compiles the first MaxRobots bytes of a file.
func NewRobots(body []byte) *Robots {
	body = body[:min(len(body), MaxRobots)]
	text := strings.ReplaceAll(strings.ReplaceAll(string(body), "\r\n", "\n"), "\r", "\n")
	return &Robots{
		rules: robots.Result{Status: 200, Body: body}.Compile(),
		lines: strings.Split(text, "\n"),
	}
}

// Check returns whether an agent may fetch a URL, or a path on the host of the file, which
// starts with "/".
func (r *Robots) Check(agent, url string) RobotsResult {
	a := RobotsResult{URL: url}
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

// CheckAgent returns why a product token is invalid; nil if it is valid.
func CheckAgent(agent string) error {
	if strings.TrimSpace(agent) == "" {
		return errors.New("want a product token such as " + Agent)
	}
	return nil
}
