package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-analyze/charts"
)

// Charts are drawn for about the width of a phone and scale to the width that they get.
const (
	chartWidth  = 480
	chartHeight = 260
	fontSize    = 13
	// timelinePoints is how many points a line is reduced to.
	timelinePoints = 96
	// barLabels is how many labels fit below bars.
	barLabels = 4
)

// timelineChart draws t as lines over seconds.
func timelineChart(t Timeline) (template.HTML, error) {
	var end time.Duration
	for _, s := range t.Series {
		for _, p := range s.Points {
			end = max(end, p.At)
		}
	}
	n := timelinePoints
	values := make([][]float64, len(t.Series))
	names := make([]string, len(t.Series))
	for i, s := range t.Series {
		values[i] = resample(s.Points, end, n)
		names[i] = s.Name
	}
	if len(values) == 0 || end == 0 {
		return "", nil
	}
	labels := make([]string, n)
	for i := range labels {
		labels[i] = fmt.Sprintf("%.1f s", end.Seconds()*float64(i)/float64(n-1))
	}
	opt := charts.NewLineChartOptionWithData(values)
	opt.XAxis.Labels = labels
	opt.XAxis.LabelCount = 5
	opt.XAxis.BoundaryGap = new(bool)
	opt.Symbol.Shape = charts.SymbolNone
	opt.Legend.SeriesNames = names
	opt.Legend.FontStyle.FontSize = fontSize
	opt.XAxis.LabelFontStyle.FontSize = fontSize
	counting(opt.YAxis)
	opt.Padding, opt.ValueFormatter = room(), number
	return draw(func(p *charts.Painter) error { return p.LineChart(opt) })
}

// resample reads points at n even times; a line holds its value until
// the next point, begins with its first and ends with its last.
func resample(points []Point, end time.Duration, n int) []float64 {
	out := make([]float64, n)
	sorted := slices.SortedFunc(slices.Values(points), func(a, b Point) int { return int(a.At - b.At) })
	k := 0
	for i := range out {
		at := time.Duration(float64(end) * float64(i) / float64(n-1))
		for k+1 < len(sorted) && sorted[k+1].At <= at {
			k++
		}
		if len(sorted) == 0 || sorted[k].At > at || at > sorted[len(sorted)-1].At {
			out[i] = charts.GetNullValue()
			continue
		}
		out[i] = sorted[k].Value
	}
	return out
}

// plotChart draws p as lines over its labels.
func plotChart(p Plot) (template.HTML, error) {
	if len(p.Labels) == 0 || len(p.Lines) == 0 {
		return "", nil
	}
	values, names := make([][]float64, len(p.Lines)), make([]string, len(p.Lines))
	for i, line := range p.Lines {
		names[i] = line.Name
		values[i] = make([]float64, len(p.Labels))
		for k := range values[i] {
			values[i][k] = charts.GetNullValue()
			if k < len(line.Values) && line.Values[k] != nil {
				values[i][k] = *line.Values[k]
			}
		}
	}
	opt := charts.NewLineChartOptionWithData(values)
	opt.XAxis.Labels = p.Labels
	opt.Legend.SeriesNames = names
	opt.Legend.FontStyle.FontSize = fontSize
	opt.XAxis.LabelFontStyle.FontSize = fontSize
	counting(opt.YAxis)
	opt.Padding, opt.ValueFormatter = room(), measure
	return draw(func(painter *charts.Painter) error { return painter.LineChart(opt) })
}

// latencyChart draws l's buckets as bars.
func latencyChart(l Latency) (template.HTML, error) {
	if len(l.Buckets) == 0 {
		return "", nil
	}
	values, labels := make([]float64, len(l.Buckets)), make([]string, len(l.Buckets))
	every := (len(labels) + barLabels - 1) / barLabels // the others are left blank: there is no room for all
	for i, b := range l.Buckets {
		values[i] = float64(b.Count)
		if i%every == 0 {
			labels[i] = "≤ " + Micros(b.UpTo)
		}
	}
	opt := charts.NewBarChartOptionWithData([][]float64{values})
	opt.CategoryAxis.Labels = labels
	opt.CategoryAxis.LabelCount = len(labels)
	opt.CategoryAxis.LabelFontStyle.FontSize = fontSize
	counting(opt.ValueAxis)
	opt.Padding, opt.ValueFormatter = room(), number
	return draw(func(p *charts.Painter) error { return p.BarChart(opt) })
}

// counting makes axes of numbers of connections or clients: from zero, in round steps.
func counting(axes []charts.ValueAxisOption) {
	for i := range axes {
		axes[i].Min = new(0.0)
		axes[i].PreferNiceIntervals = new(true)
		axes[i].LabelFontStyle.FontSize = fontSize
	}
}

// room leaves some on the right, for the half of the last label that stands beside its tick.
func room() charts.Box {
	const all, right = 10, 36
	return charts.Box{Top: all, Left: all, Bottom: all, Right: right, IsSet: true}
}

func draw(chart func(*charts.Painter) error) (template.HTML, error) {
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: chartWidth, Height: chartHeight})
	if err := chart(p); err != nil {
		return "", fmt.Errorf("draw a chart: %w", err)
	}
	svg, err := p.Bytes()
	if err != nil {
		return "", fmt.Errorf("draw a chart: %w", err)
	}
	return template.HTML(svg), nil //nolint:gosec // the library escapes text, which a test holds it to
}

// number prints a tick of a counting axis; there is no half of a connection.
func number(v float64) string {
	if v != math.Trunc(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// measure prints a tick of an axis of anything.
func measure(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Micros prints a time in the unit that fits.
func Micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 1000_000:
		return fmt.Sprintf("%.3g ms", float64(us)/1e3)
	}
	return fmt.Sprintf("%.3g s", float64(us)/1e6)
}
