package experiment

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette is the colours of lines, which can be distinguished with colour blindness, too
// (Okabe, Ito 2008).
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
	{0x99, 0x99, 0x99, 0xff},
}

const (
	plotWidth, plotHeight = 20 * vg.Centimeter, 12 * vg.Centimeter
	// maxPoints is the largest number of points drawn per line: more cannot be distinguished.
	maxPoints = 2000
)

// svg draws p. It omits points that are not finite, or not positive on a logarithmic axis.
func (p Plot) svg() ([]byte, error) {
	fonts := font.Font{Typeface: "Liberation", Variant: "Sans"}
	g := plot.New()
	g.Title.Text, g.X.Label.Text, g.Y.Label.Text = p.Title, p.X, p.Y
	for _, s := range []*font.Font{
		&g.Title.TextStyle.Font, &g.X.Label.TextStyle.Font, &g.Y.Label.TextStyle.Font,
		&g.X.Tick.Label.Font, &g.Y.Tick.Label.Font, &g.Legend.TextStyle.Font,
	} {
		s.Typeface, s.Variant = fonts.Typeface, fonts.Variant
	}
	for axis, log := range map[*plot.Axis]bool{&g.X: p.LogX, &g.Y: p.LogY} {
		if log {
			axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe0}, color.Gray{0xe0}
	g.Add(grid)
	g.Legend.Top = true
	drawn := 0
	for i, s := range p.Series {
		if len(s.X) != len(s.Y) {
			return nil, fmt.Errorf("series %q has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		xy := p.points(s)
		if len(xy) == 0 {
			continue
		}
		drawn++
		if err := addSeries(g, s, xy, i); err != nil {
			return nil, err
		}
	}
	if drawn == 0 { // axes need a range
		g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = 1, 10, 1, 10
	}
	widen(&g.X, p.LogX)
	widen(&g.Y, p.LogY)
	c := vgsvg.New(plotWidth, plotHeight)
	g.Draw(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}

// addSeries draws series number i.
func addSeries(g *plot.Plot, s Series, xy plotter.XYs, i int) error {
	ink := palette[i%len(palette)]
	if s.Points {
		dots, err := plotter.NewScatter(xy)
		if err != nil {
			return err
		}
		dots.Color, dots.Radius = ink, vg.Points(2)
		g.Add(dots)
		g.Legend.Add(s.Name, dots)
		return nil
	}
	line, err := plotter.NewLine(xy)
	if err != nil {
		return err
	}
	line.Color, line.Width = ink, vg.Points(1.5)
	if i >= len(palette) {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
	}
	g.Add(line)
	g.Legend.Add(s.Name, line)
	return nil
}

// points returns the points of s that can be drawn, at most maxPoints.
func (p Plot) points(s Series) (xy plotter.XYs) {
	step := 1
	if !s.Points {
		step = (len(s.X) + maxPoints - 1) / maxPoints
	}
	for i := range s.X {
		if step > 1 && i%step != 0 && i != len(s.X)-1 {
			continue
		}
		x, y := s.X[i], s.Y[i]
		if !finite(x) || !finite(y) || p.LogX && x <= 0 || p.LogY && y <= 0 {
			continue
		}
		xy = append(xy, plotter.XY{X: x, Y: y})
	}
	return xy
}

// widen gives an axis a range if it has none, and a logarithmic one a range of whole powers of
// ten, which its ticks need.
func widen(a *plot.Axis, log bool) {
	if log {
		a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)))
		a.Max = math.Pow(10, math.Ceil(math.Log10(a.Max)))
		if a.Min == a.Max {
			a.Max *= 10
		}
		return
	}
	if a.Min == a.Max {
		a.Min, a.Max = a.Min-1, a.Max+1
	}
}
