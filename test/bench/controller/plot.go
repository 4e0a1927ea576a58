package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/pod2/pod2/test/bench/measure"
)

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
