package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"strconv"
	"time"
)

//go:embed *.gohtml
var pages embed.FS

// HTML is report.html.
func (r *Report) HTML() ([]byte, error) {
	return fill("report.gohtml", r, template.FuncMap{"share": r.share, "suites": r.suites, "broken": r.broken})
}

// fill executes the page of this name; own are functions beside those that all pages have.
func fill(name string, data any, own template.FuncMap) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"timeline": timelineChart,
		"latency":  latencyChart,
		"plot":     plotChart,
		"micros":   Micros,
		"mean":     func(us float64) string { return Micros(int64(us)) },
		"value":    func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) },
		"seconds":  seconds,
		"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"word":     State.word,
	}).Funcs(own).ParseFS(pages, name, "parts.gohtml")
	if err != nil {
		return nil, fmt.Errorf("parse the page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("fill in the page: %w", err)
	}
	return b.Bytes(), nil
}

func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return fmt.Sprintf("%.1f s", s)
}

// share is a spec's time in hundredths of the longest spec's.
func (r *Report) share(s float64) int {
	longest := 0.0
	for i := range r.Specs {
		longest = max(longest, r.Specs[i].Seconds)
	}
	if longest == 0 {
		return 0
	}
	return int(100 * s / longest)
}

// suite is the specs of one suite, in the order in which they ran.
type suite struct {
	Name  string
	Specs []*Spec
}

func (r *Report) suites() []*suite {
	var all []*suite
	by := map[string]*suite{}
	for i := range r.Specs {
		s := &r.Specs[i]
		if by[s.Suite] == nil {
			by[s.Suite] = &suite{Name: s.Suite}
			all = append(all, by[s.Suite])
		}
		by[s.Suite].Specs = append(by[s.Suite].Specs, s)
	}
	return all
}

// broken is the specs that failed, in the order in which they ran.
func (r *Report) broken() []*Spec {
	var all []*Spec
	for i := range r.Specs {
		if r.Specs[i].State == Failed {
			all = append(all, &r.Specs[i])
		}
	}
	return all
}
