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

// series finds the names that calls of gauge and counter are given, with their types.
func series(t *testing.T, dir string) map[string]string {
	t.Helper()
	found, named := map[string]string{}, map[string]bool{}
	isName := regexp.MustCompile(`^(kafka|brokerlab)_[a-z_]*[a-z]$`)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		name := func(e ast.Expr) string {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return ""
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !isName.MatchString(text) {
				return ""
			}
			return text
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if is := name(n); is != "" {
					named[is] = true
				}
			case *ast.CallExpr:
				for _, arg := range n.Args {
					if is := name(arg); is != "" {
						found[is] = nameOf(n.Fun)
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
	for name := range named {
		if found[name] != "gauge" && found[name] != "counter" {
			t.Errorf("series %s is made by %q: this test knows gauge and counter", name, found[name])
		}
	}
	return found
}
