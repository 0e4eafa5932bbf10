package report_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// look opens all that is folded and measures the page.
const look = `(() => {
	document.querySelectorAll('details').forEach(d => d.open = true);
	const box = e => e.getBoundingClientRect();
	const name = e => e.tagName + ' ' + (e.textContent || '').trim().slice(0, 40) + ' ' + Math.round(box(e).right);
	return {
		width: document.documentElement.scrollWidth,
		plots: [...document.querySelectorAll('svg')].map(s => ({
			width: box(s).width, height: box(s).height, marks: s.querySelectorAll('path, polyline, rect').length,
			texts: s.querySelectorAll('text').length, smallest: Math.min(...[...s.querySelectorAll('text')].map(t => box(t).height)),
		})),
		tooWide: [...document.querySelectorAll('body *')].filter(e => !e.closest('svg') || e.tagName === 'svg')
			.filter(e => box(e).width > 0 && (box(e).right > innerWidth + 1 || box(e).left < -1)).map(name),
		scrolled: [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(name),
	};
})()`

// sight is what look returns.
type sight struct {
	Width    int64    `json:"width"`
	Plots    []plot   `json:"plots"`
	TooWide  []string `json:"tooWide"`  // elements that stick out of the window
	Scrolled []string `json:"scrolled"` // boxes that have to be scrolled sideways to be read
}

// plot is one chart as the browser drew it, in pixels; Marks are its lines and bars, Smallest is its smallest text.
type plot struct {
	Width    float64 `json:"width"`
	Height   float64 `json:"height"`
	Marks    int     `json:"marks"`
	Texts    int     `json:"texts"`
	Smallest float64 `json:"smallest"`
}

// browser starts headless Chromium, or skips the test where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium is installed (Debian: apt-get install chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestTheReportOpensInABrowserWithEveryPlotDrawnAndNothingWiderThanTheWindow(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(report.New("brokerlab", run()).Write(folder)).To(Succeed())
	ctx := browser(t)
	var mu sync.Mutex
	var complaints []string
	g.Expect(chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			complaints = append(complaints, fmt.Sprintf("console.%v", e.Type))
		case *runtime.EventExceptionThrown:
			complaints = append(complaints, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			complaints = append(complaints, e.Entry.Text)
		}
	})).To(Succeed())
	page := "file://" + filepath.Join(folder, report.HTMLFile)
	for _, width := range []int64{400, 1400} {
		const windowHeight = 900
		g.Expect(chromedp.Do(ctx, chromedp.EmulateViewport(width, windowHeight), chromedp.Navigate(page))).To(Succeed())
		seen, err := chromedp.Run(ctx, chromedp.Evaluate[sight](look))
		g.Expect(err).NotTo(HaveOccurred())
		if path := os.Getenv("BROKERLAB_KEEP_REPORT"); path != "" {
			picture, photoErr := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			g.Expect(photoErr).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(fmt.Sprintf("%s.%d.png", path, width), picture, 0o600)).To(Succeed())
		}
		g.Expect(seen.Plots).To(HaveLen(2), "one timeline, one histogram")
		for _, p := range seen.Plots {
			g.Expect(p.Width).To(BeNumerically(">", 300), "at %d pixels: %+v", width, p)
			g.Expect(p.Height).To(BeNumerically(">", 150), "at %d pixels: %+v", width, p)
			g.Expect(p.Marks).To(BeNumerically(">", 2), "at %d pixels: %+v", width, p)
			g.Expect(p.Texts).To(BeNumerically(">", 4), "at %d pixels: %+v", width, p)
			g.Expect(p.Smallest).To(BeNumerically(">", 7), "text that can be read, at %d pixels: %+v", width, p)
		}
		g.Expect(seen.TooWide).To(BeEmpty(), "at %d pixels", width)
		g.Expect(seen.Scrolled).To(BeEmpty(), "at %d pixels", width)
		g.Expect(seen.Width).To(BeNumerically("<=", width))
	}
	mu.Lock()
	defer mu.Unlock()
	g.Expect(complaints).To(BeEmpty())
}
