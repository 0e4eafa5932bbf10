package report

// Page is a report of something else than suites, as one HTML file: figures, charts and tables under headings.
type Page struct {
	Title    string
	Lead     []string // lines below the title
	Sections []Section
}

// Section is a part of a [Page].
type Section struct {
	Name string
	Text []string // paragraphs

	Figures   []Figure
	Plots     []Plot
	Timelines []Timeline
	Latencies []Latency
	Tables    []Table
}

// Plot is lines over something else than time.
type Plot struct {
	Name   string
	Unit   string
	Labels []string // of the points
	Lines  []Line
	Note   string
}

// Line is one line of a plot: a value for each label; nil where there is none.
type Line struct {
	Name   string
	Values []*float64
}

// HTML is the page.
func (p *Page) HTML() ([]byte, error) { return fill("page.gohtml", p, nil) }
