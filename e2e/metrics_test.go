package e2e

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// What a broker in use serves under /metrics is what docs/metrics.md says: name, type and labels.
func TestEachSeriesOfALiveBrokerIsOnThePageOfMetrics(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	b.stop(t, syscall.SIGTERM)
	port := strconv.Itoa(kit.FreePort())
	b.process = start(t, "broker", "--config", b.dir+"/server.properties", "-o", "metrics.listener=127.0.0.1:"+port,
		"-o", "authorizer.class.name=brokerlab", "-o", "allow.everyone.if.no.acl.found=true", "-o", "client.config.policy.class.name=log")
	b.wait(t)
	for _, protocol := range protocols() {
		mustRun(t, "one\n", "kcat", b.kcat(protocol, "-P", "-t", "counted")...)
	}
	mustRun(t, "", "../examples/push_config.py", b.address("PLAINTEXT"), "pusher", "acks=all")
	page := documented(t)
	live := scrape(t, "http://127.0.0.1:"+port+"/metrics")
	for name, got := range live {
		want, ok := page[name]
		if !ok {
			t.Errorf("%s is not on the page", name)
			continue
		}
		// Series of a listener are described under one heading, with their labels above the table.
		if want.kind != got.kind || (want.labels != nil && !slices.Equal(got.labels, want.labels)) {
			t.Errorf("%s is %v, the page says %v", name, got, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(page)) {
		lost := name == "brokerlab_kernel_lost_total" // absent while nothing was lost
		late := strings.Contains(name, "authentication_total")
		exact := strings.HasPrefix(name, "brokerlab_kernel_")            // only with the privileges
		open := name == "kafka_server_socket_server_metrics_connections" // only of clients that are connected
		if _, ok := live[name]; !ok && !lost && !late && !exact && !open {
			t.Errorf("the page has %s, the broker has not", name)
		}
	}
}

type described struct {
	kind   string
	labels []string
}

// documented reads the tables of the page.
func documented(t *testing.T) map[string]described {
	t.Helper()
	names := regexp.MustCompile("`([a-z_]+)`")
	found := map[string]described{}
	for line := range strings.Lines(read(t, "../docs/metrics.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		d := described{kind: strings.TrimSpace(cells[2])}
		if text := strings.TrimSpace(cells[3]); text == "" || strings.HasPrefix(text, "`") && !strings.Contains(strings.ReplaceAll(text, "`, `", ""), " ") {
			d.labels = []string{}
			for _, m := range names.FindAllStringSubmatch(text, -1) {
				d.labels = append(d.labels, m[1])
			}
			slices.Sort(d.labels)
		}
		for _, m := range names.FindAllStringSubmatch(cells[1], -1) {
			found[m[1]] = d
		}
	}
	return found
}

// scrape reads the series that are brokerlab's, by name.
func scrape(t *testing.T, url string) map[string]described {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind := regexp.MustCompile(`^# TYPE ((?:kafka|brokerlab)_\S+) (\S+)`)
	sample := regexp.MustCompile(`^((?:kafka|brokerlab)_[a-z_]+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)
	found := map[string]described{}
	for line := range strings.Lines(string(body)) {
		if m := kind.FindStringSubmatch(line); m != nil {
			found[m[1]] = described{kind: m[2]}
		}
		if m := sample.FindStringSubmatch(line); m != nil {
			labels := []string{}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				labels = append(labels, l[1])
			}
			slices.Sort(labels)
			found[m[1]] = described{kind: found[m[1]].kind, labels: labels}
		}
	}
	return found
}
