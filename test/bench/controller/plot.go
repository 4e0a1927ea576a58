package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/pod2/pod2/test/bench/measure"
)

// plot draws all plots of the page anew.
func (b *bench) plot(dir string) {
	for _, old := range measure.Must(filepath.Glob(filepath.Join(dir, "pods-*.svg"))) {
		measure.Check(os.Remove(old))
	}
	for _, n := range b.Plots() {
		plotRuns(filepath.Join(dir, fmt.Sprintf("pods-%d.svg", n)), b.middle(n))
	}
	for file, chart := range b.charts() {
		if len(chart.of) > 0 {
			chart.draw(filepath.Join(dir, file))
		}
	}
}

// bar is a row of a chart.
type bar struct {
	name  string
	value float64
}

// chart of bars, the first at the top.
type chart struct {
	title, axis string
	of          []bar
}

// charts that the page begins with, by the names of their files.
func (r *report) charts() map[string]chart {
	ready := chart{title: fmt.Sprintf("%d pods are created: when are all of them Ready? Shorter is better.", r.N()), axis: "seconds, not corrected for the speed of the machine"}
	for _, c := range contenders() {
		if r.Count(c.name, r.N(), "ready") > 0 && !c.full {
			ready.of = append(ready.of, bar{c.name, r.Median(c.name, r.N(), "ready")})
		}
	}
	addresses := chart{title: "How many pods get an address in a second, 16 at once? Longer is better.", axis: "addresses per second"}
	for _, name := range r.Allocators() {
		addresses.of = append(addresses.of, bar{name, r.Median("addresses", name, "per second")})
	}
	return map[string]chart{"ready.svg": ready, "addresses.svg": addresses}
}

func (c chart) draw(path string) {
	p := plot.New()
	p.Title.Text, p.Title.Padding, p.X.Label.Text = c.title, vg.Points(8), c.axis
	names := make([]string, len(c.of))
	for i, b := range c.of {
		at := len(c.of) - 1 - i
		names[at] = b.name
		bars := measure.Must(plotter.NewBarChart(plotter.Values{b.value}, vg.Points(16)))
		bars.Horizontal, bars.XMin, bars.LineStyle.Width = true, float64(at), 0
		bars.Color = color.Gray{Y: 160}
		if strings.HasPrefix(b.name, pod2) {
			bars.Color = plotutil.Color(2)
		}
		label := measure.Must(plotter.NewLabels(plotter.XYLabels{
			XYs: plotter.XYs{{X: b.value, Y: float64(at)}}, Labels: []string{fmt.Sprintf(" %.1f", b.value)},
		}))
		label.Offset.Y = vg.Points(-4)
		p.Add(bars, label)
	}
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, p.X.Max*1.08 // for the label of the longest bar
	measure.Check(p.Save(9*vg.Inch, vg.Points(26)*vg.Length(len(c.of)+3), path))
}

// pointsDrawn is the maximum of points in a line: more are indistinguishable.
const pointsDrawn = 400

// plotRuns draws the number of Ready pods of each lap over time, until all are Ready.
func plotRuns(path string, laps []*lap) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%d pods", laps[0].n)
	p.X.Label.Text, p.Y.Label.Text = "seconds", "pods Ready"
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, l := range laps {
		line := measure.Must(plotter.NewLine(readyOverTime(l)))
		line.Color = plotutil.Color(i)
		line.Dashes = plotutil.Dashes(i % 2)
		p.Add(line)
		p.Legend.Add(l.contender.name, line)
	}
	measure.Check(p.Save(9*vg.Inch, 5*vg.Inch, path))
}

func readyOverTime(l *lap) plotter.XYs {
	xys := plotter.XYs{{X: 0, Y: 0}}
	step := l.ready / pointsDrawn
	next := step
	for _, point := range l.pods.Points {
		at := point.At.Sub(l.begin)
		if at >= next || at == l.ready {
			xys = append(xys, plotter.XY{X: at.Seconds(), Y: float64(point.Ready)})
			next = at + step
		}
		if at >= l.ready {
			break
		}
	}
	return xys
}
