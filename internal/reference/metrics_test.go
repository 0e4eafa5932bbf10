package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/metrics.md names each series of the code, with its type, and no other.
func TestThePageOfMetricsIsTheCodes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| (`.*?`) \\| (gauge|counter) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[1], -1) {
			documented[name[1]] = m[2]
		}
	}
	if coded := series(t, "../../broker"); !maps.Equal(coded, documented) {
		for name, kind := range coded {
			if documented[name] != kind {
				t.Errorf("docs/metrics.md has %s as %q, the code as %q", name, documented[name], kind)
			}
		}
		for name := range documented {
			if coded[name] == "" {
				t.Errorf("docs/metrics.md has %s, the code has not", name)
			}
		}
	}
}

// series finds the names of the code's series with their types: the first argument of a function called gauge or counter, behind
// what that function puts before it, and names given in options.
func series(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		prefix := ""
		ast.Inspect(file, func(n ast.Node) bool {
			if sum, ok := n.(*ast.BinaryExpr); ok && ours(text(sum.X)) {
				prefix = text(sum.X)
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				kind := nameOf(n.Fun)
				if kind != "gauge" && kind != "counter" {
					return true
				}
				for _, arg := range n.Args {
					if name := text(arg); ours(name) {
						found[name] = kind
						break
					} else if name != "" && prefix != "" {
						found[prefix+name] = kind
						break
					}
				}
			case *ast.CompositeLit:
				kind, isOptions := strings.CutSuffix(nameOf(n.Type), "Opts")
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok && isOptions && ours(text(kv.Value)) {
						found[text(kv.Value)] = strings.ToLower(kind)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// text is a string literal's.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

func ours(name string) bool {
	return strings.HasPrefix(name, "kafka_") || strings.HasPrefix(name, "brokerlab_")
}
