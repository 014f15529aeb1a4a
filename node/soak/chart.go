package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A panel is one chart: some lines over the same time.
type panel struct {
	title string // with the unit
	lines []line
}

type line struct {
	name string
	y    []float64
}

// The measures of a chart in SVG's units.
const (
	chartWidth, panelHeight       = 900, 180
	padLeft, padRight             = 70, 20
	padTop, padBottom             = 30, 25
	plotWidth                     = chartWidth - padLeft - padRight
	plotHeight                    = panelHeight - padTop - padBottom
	gridLines                     = 4
	axisStyle, textStyle, strokes = "#ccc", "font:12px sans-serif;fill:#333", "fill:none;stroke-width:1.5"
)

var colours = []string{"#1f5fa8", "#c0392b", "#2e8b57"}

// drawChart writes the panels one below the other; x is in minutes and the
// same for all.
func drawChart(w io.Writer, x []float64, panels []panel) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">`+"\n", chartWidth, panelHeight*len(panels))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(0,%d)">`+"\n", i*panelHeight)
		p.draw(&b, x)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p panel) draw(b *strings.Builder, x []float64) {
	top := 0.0
	for _, l := range p.lines {
		for _, v := range l.y {
			top = max(top, v)
		}
	}
	top = roundUp(top)
	end := 1e-9
	for _, v := range x {
		end = max(end, v)
	}
	fmt.Fprintf(b, `<text x="%d" y="18" style="%s;font-weight:bold">%s</text>`+"\n", padLeft, textStyle, p.title)
	for i := range gridLines + 1 {
		share := float64(i) / gridLines
		y := padTop + plotHeight*(1-share)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end" style="%s">%g</text>`+"\n",
			padLeft, y, plotWidth, axisStyle, padLeft-6, y+4, textStyle, top*share)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" style="%s">%.3g min</text>`+"\n",
			padLeft+plotWidth*share, panelHeight-6, textStyle, end*share)
	}
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		fmt.Fprintf(b, `<text x="%d" y="18" text-anchor="end" style="%s;fill:%s">%s</text>`+"\n", chartWidth-padRight-110*i, textStyle, colour, l.name)
		fmt.Fprintf(b, `<polyline style="%s;stroke:%s" points="`, strokes, colour)
		for j, v := range l.y {
			fmt.Fprintf(b, "%.1f,%.1f ", padLeft+plotWidth*x[j]/end, padTop+plotHeight*(1-v/top))
		}
		b.WriteString(`"/>` + "\n")
	}
}

// roundUp is the next round number from v on: 1, 2, 4 or 8 times a power of
// ten, so that a quarter of it is round too.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 4, 8} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}
