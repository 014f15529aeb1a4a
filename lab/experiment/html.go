package experiment

import (
	"bytes"
	_ "embed"
	"html/template"
	"strings"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"short": Cell.short,
	"add":   func(a, b int) int { return a + b },
}).Parse(reportText))

// page is the report of several runs: a single file without external resources.
type page struct {
	Versions versions
	Sections []section
}

// section is one run of a page.
type section struct {
	*Result
	Command string
	Drawn   []drawing
}

// drawing is a plot in the page.
type drawing struct {
	Title string
	SVG   template.HTML
}

// addPlot adds an SVG text without the lines before its root element, which are valid only in a
// separate file. The text is not escaped: it comes from svg, which escapes all strings in it.
func (s *section) addPlot(p Plot, svg []byte) {
	text := string(svg)
	if i := strings.Index(text, "<svg"); i >= 0 {
		text = text[i:]
	}
	s.Drawn = append(s.Drawn, drawing{p.Title, template.HTML(text)})
}

// html returns the page.
func (p page) html() ([]byte, error) {
	var b bytes.Buffer
	err := reportTemplate.Execute(&b, p)
	return b.Bytes(), err
}
