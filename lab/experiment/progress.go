package experiment

import (
	"fmt"
	"io"
	"os"
	"time"
)

// Progress shows the progress of runs: on a terminal in one line that is overwritten, elsewhere
// as a line every few seconds. Only one goroutine may use it.
type Progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	name     string
	began    time.Time
	last     time.Time
	width    int // of the current text of the line
	what     string
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w, now: time.Now}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Begin starts a run.
func (p *Progress) Begin(name string) {
	p.name, p.began, p.width, p.what = name, p.now(), 0, ""
	p.last = p.began
}

// Show implements Out.Progress.
func (p *Progress) Show(share float64, what string) {
	p.what = what
	now := p.now()
	pause := 5 * time.Second
	if p.terminal {
		pause = 200 * time.Millisecond
	}
	if now.Sub(p.last) < pause {
		return
	}
	p.last = now
	p.line(fmt.Sprintf("%s: %3.0f %%, %s, %s", p.name, 100*share,
		now.Sub(p.began).Round(time.Second), printable(what)), !p.terminal)
}

// End ends a run and prints how it ended, its duration and its last message.
func (p *Progress) End(how string) {
	text := fmt.Sprintf("%s: %s, %.1f s", p.name, how, p.now().Sub(p.began).Seconds())
	if p.what != "" {
		text += ", " + printable(p.what)
	}
	p.line(text, true)
}

// line writes a line in place of the current one.
func (p *Progress) line(text string, end bool) {
	const most = 110
	if r := []rune(text); len(r) > most && !end {
		text = string(r[:most])
	}
	if p.terminal {
		pad := max(0, p.width-len([]rune(text)))
		fmt.Fprintf(p.w, "\r%s%*s", text, pad, "")
		p.width = len([]rune(text))
		if !end {
			return
		}
		p.width = 0
		fmt.Fprintln(p.w)
		return
	}
	fmt.Fprintln(p.w, text)
}
