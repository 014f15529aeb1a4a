package soak

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A chart is one diagram: several lines over time.
type chart struct {
	title string // with the unit
	lines []line
}

type line struct {
	name string
	y    []float64
}

// The dimensions of a chart in SVG units, and its styles.
const (
	chartWidth, chartHeight       = 900, 180
	padLeft, padRight             = 70, 20
	padTop, padBottom             = 30, 25
	plotWidth                     = chartWidth - padLeft - padRight
	plotHeight                    = chartHeight - padTop - padBottom
	gridLines                     = 4
	axisStyle, textStyle, strokes = "#ccc", "font:12px sans-serif;fill:#333",
		"fill:none;stroke-width:1.5"
)

var colours = []string{"#1f5fa8", "#c0392b", "#2e8b57"}

// drawCharts writes the charts one below the other. All share x, in minutes.
func drawCharts(w io.Writer, x []float64, charts []chart) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">`+"\n",
		chartWidth, chartHeight*len(charts))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for i, c := range charts {
		fmt.Fprintf(&b, `<g transform="translate(0,%d)">`+"\n", i*chartHeight)
		c.draw(&b, x)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c chart) draw(b *strings.Builder, x []float64) {
	top := 0.0
	for _, l := range c.lines {
		for _, v := range l.y {
			top = max(top, v)
		}
	}
	top = roundUp(top)
	end := 1e-9
	for _, v := range x {
		end = max(end, v)
	}
	fmt.Fprintf(b, `<text x="%d" y="18" style="%s;font-weight:bold">%s</text>`+"\n", padLeft,
		textStyle, c.title)
	for i := range gridLines + 1 {
		share := float64(i) / gridLines
		y := padTop + plotHeight*(1-share)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="%s"/>`, padLeft, y, plotWidth, axisStyle)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" style="%s">%g</text>`+"\n",
			padLeft-6, y+4, textStyle, top*share)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" style="%s">%.3g min</text>`+"\n",
			padLeft+plotWidth*share, chartHeight-6, textStyle, end*share)
	}
	for i, l := range c.lines {
		colour := colours[i%len(colours)]
		fmt.Fprintf(b, `<text x="%d" y="18" text-anchor="end" style="%s;fill:%s">%s</text>`+"\n",
			chartWidth-padRight-110*i, textStyle, colour, l.name)
		fmt.Fprintf(b, `<polyline style="%s;stroke:%s" points="`, strokes, colour)
		for j, v := range l.y {
			fmt.Fprintf(b, "%.1f,%.1f ", padLeft+plotWidth*x[j]/end, padTop+plotHeight*(1-v/top))
		}
		b.WriteString(`"/>` + "\n")
	}
}

// roundUp returns the least of 1, 2, 4 and 8 times a power of ten that is not below v,
// so that a quarter of it is round too.
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
