package report

import (
	"strings"
	"testing"
	"time"
)

func TestAPageEscapesWhatOthersWroteAndLeavesOutWhatIsNotKnown(t *testing.T) {
	const hostile = "<script>alert(1)</script>"
	p := Page{Title: hostile, Lead: []string{hostile}, Sections: []Section{{
		Name: hostile, Text: []string{hostile},
		Figures:   []Figure{{Name: hostile, Value: 1}},
		Plots:     []Plot{{Name: hostile, Labels: []string{hostile, "2"}, Lines: []Line{{Name: hostile, Values: []*float64{nil, new(2.5)}}}}, {Name: "nothing"}},
		Timelines: []Timeline{{Name: "t", Series: []Series{{Name: hostile, Points: []Point{{At: 0}, {At: time.Second, Value: 1}}}}}},
		Tables:    []Table{{Name: hostile, Columns: []string{hostile}, Rows: [][]string{{hostile}}}},
	}}}
	text, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if strings.Contains(page, "<script") {
		t.Error("a name is a script in the page")
	}
	if n := strings.Count(page, "<svg"); n != 2 {
		t.Errorf("the page has %d charts, want the plot and the timeline", n)
	}
	if n := strings.Count(page, "&lt;script&gt;"); n < 8 {
		t.Errorf("the page shows the name %d times", n)
	}
}

func TestTicksFitTheirAxis(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2.5: "2.5", 1234.4: "1234", 190000: "190000", 0.123456: "0.123", -3: "-3"} {
		if got := measure(v); got != want {
			t.Errorf("measure(%v) = %q, want %q", v, got, want)
		}
	}
}
