package command

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

func TestBrokersAreDrawnBeforeTheirEngine(t *testing.T) {
	for text, want := range map[string]map[string][]string{
		"\nbrokers: 2": {
			"mermaid": {"n1 -. engine .-> n3\n", "n2 -. engine .-> n3\n"},
			"dot":     {"n2 -- n3 [label=\"engine\", style=dashed, dir=forward];\n"},
		},
		"\nbrokers: 2\nengine: kafka": {"mermaid": {"n1 -. engine .-> n3\n", "n2 -. engine .-> n4\n"}},
	} {
		file, _ := labFile(t, text)
		for format, lines := range want {
			code, out, errs := commandLine(t, "", "lab", "graph", file, "--format", format)
			for _, line := range lines {
				if code != 0 || !strings.Contains(out, line) {
					t.Errorf("lab graph of %q --format %s = %d %s\n%s, want a line %q", text, format, code, errs, out, line)
				}
			}
		}
	}
}

const drawn = `
nodes:
  b1: {kind: broker, addresses: [192.0.2.1, "2001:db8::1"], listeners: ["SSL://:9093", "IN://192.0.2.1:9094"], config: {listener.security.protocol.map: "SSL:SSL,IN:SASL_SSL"}, expose: [29192]}
  web: {kind: exec, cmd: [true], addresses: [192.0.2.2]}
subnets:
  few: {count: 2, from: 10.1.0.0/16}
  many: {count: 200, from: [10.8.0.0/13, "fd00:8::/48"]}
  office: {cidr: [10.9.0.0/24, "fd00:9::/64"]}
`

func TestALabIsDrawnWithItsSubnetsNodesAndPorts(t *testing.T) {
	file, name := labFile(t, drawn)
	for format, want := range map[string]string{
		"mermaid": `---
title: lab NAME
---
graph LR
  router((router))
  router --- n1["b1 (broker)<br>192.0.2.1<br>2001:db8::1<br>SSL :9093<br>IN 192.0.2.1:9094 SASL_SSL"]
  router --- n2["web (exec)<br>192.0.2.2"]
  s1(["few-1<br>10.1.0.0/24"]) --- router
  s2(["few-2<br>10.1.1.0/24"]) --- router
  s3(["many-1 … many-200<br>200 subnets<br>10.8.0.0/24 … 10.8.199.0/24<br>fd00:8::/64 … fd00:8:0:c7::/64"]) --- router
  s4(["office<br>10.9.0.0/24<br>fd00:9::/64"]) --- router
  host[/"127.0.0.1 of this machine"/] -- "29192" --> n1
`,
		"dot": `graph "NAME" {
  label="lab NAME"; rankdir=LR; node [shape=box];
  router [shape=circle];
  s1 [shape=ellipse, label="few-1\n10.1.0.0/24"];
  s1 -- router;
  s2 [shape=ellipse, label="few-2\n10.1.1.0/24"];
  s2 -- router;
  s3 [shape=ellipse, label="many-1 … many-200\n200 subnets\n10.8.0.0/24 … 10.8.199.0/24\nfd00:8::/64 … fd00:8:0:c7::/64"];
  s3 -- router;
  s4 [shape=ellipse, label="office\n10.9.0.0/24\nfd00:9::/64"];
  s4 -- router;
  n1 [label="b1 (broker)\n192.0.2.1\n2001:db8::1\nSSL :9093\nIN 192.0.2.1:9094 SASL_SSL"];
  router -- n1;
  n2 [label="web (exec)\n192.0.2.2"];
  router -- n2;
  host [shape=parallelogram, label="127.0.0.1 of this machine"];
  host -- n1 [label="29192", dir=forward];
}
`,
	} {
		code, out, errs := commandLine(t, "", "lab", "graph", file, "--format", format)
		want = strings.ReplaceAll(want, "NAME", name)
		if diff := cmp.Diff(want, out); code != 0 || diff != "" {
			t.Errorf("lab graph --format %s = %d %s (-want +got):\n%s", format, code, errs, diff)
		}
	}
	if _, out, _ := commandLine(t, "", "lab", "graph", file, "--wide"); strings.Count(out, "--- router\n") != 203 {
		t.Errorf("lab graph --wide does not draw all 203 subnets:\n%s", out)
	}
}

func TestWhatCannotBeDrawnSaysWhy(t *testing.T) {
	file, _ := labFile(t, "nodes: {b: {kind: brokr}}")
	if code, _, errs := commandLine(t, "", "lab", "graph", file); code != 2 || !strings.Contains(errs, "brokr") {
		t.Errorf("lab graph of a wrong file = %d %s, want 2 and the problem", code, errs)
	}
	if code, _, errs := commandLine(t, "", "lab", "graph", file, "--format", "png"); code != 2 || !strings.Contains(errs, "use mermaid or dot") {
		t.Errorf("lab graph --format png = %d %s, want 2 and the formats", code, errs)
	}
}

func TestALabThatIsUpIsDrawnByItsName(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneProgram)
	if code, out, errs := commandLine(t, "", "lab", "up", file); code != 0 {
		t.Fatalf("lab up = %d, %s%s", code, out, errs)
	}
	_, want, _ := commandLine(t, "", "lab", "graph", file)
	if code, got, errs := commandLine(t, "", "lab", "graph", name); code != 0 || got != want {
		t.Errorf("lab graph of the lab = %d %s%s, want that of its file: %s", code, got, errs, want)
	}
}
