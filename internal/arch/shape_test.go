package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasOneCommentThatSaysWhatItIs(t *testing.T) {
	comments, packages := map[string][]string{}, map[string]string{}
	for _, f := range tree(t) {
		if f.test {
			continue
		}
		packages[f.dir] = f.ast.Name.Name
		if f.ast.Doc != nil && !strings.HasPrefix(f.ast.Doc.Text(), "Code generated") && strings.TrimSpace(f.ast.Doc.Text()) != "" {
			comments[f.dir] = append(comments[f.dir], f.name)
		}
	}
	for dir, name := range packages {
		if got := comments[dir]; len(got) != 1 {
			t.Errorf("package %s (%s) has its comment in %v, want exactly one file", name, dir, got)
		}
	}
}

// Two packages with a BeforeSuite cannot share a binary, and `brokerlab run` links all suites into one.
func TestSuitesHaveNoSuiteLevelNodes(t *testing.T) {
	nodes := []string{
		"BeforeSuite", "AfterSuite", "SynchronizedBeforeSuite", "SynchronizedAfterSuite",
		"ReportBeforeSuite", "ReportAfterSuite",
	}
	for _, f := range tree(t) {
		// runner runs suites from the binary, and stage's RunSuite under go test.
		runs := under(f.dir, "scenarios/runner") || f.dir == "scenarios/stage"
		if !under(f.dir, "scenarios") || runs || f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name := calledName(call); slices.Contains(nodes, name) {
				t.Errorf("%s/%s has a %s: only the runner has suite-level nodes", f.dir, f.name, name)
			}
			return true
		})
	}
}

// A focused or pending spec would let a suite pass without running it.
func TestNoSpecIsFocusedOrPending(t *testing.T) {
	marks := []string{"FIt", "FDescribe", "FContext", "FWhen", "FSpecify", "XIt", "PIt", "XDescribe", "PDescribe", "XContext", "PContext"}
	for _, f := range tree(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.Contains(marks, calledName(call)) {
				t.Errorf("%s/%s has a spec marked %s", f.dir, f.name, calledName(call))
			}
			return true
		})
	}
}

func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// calls tells whether f calls pkg.name.
func calls(f *ast.File, pkg, name string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
				found = true
			}
		}
		return true
	})
	return found
}
