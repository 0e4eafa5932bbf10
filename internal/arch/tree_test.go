package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/brokerlab/brokerlab"

// file is one parsed source file; dir is its folder below the root with slashes, "." for the root.
type file struct {
	dir, name string
	ast       *ast.File
	test      bool
}

// imports lists what f imports of this module, as folders below the root.
func (f file) imports() []string {
	var dirs []string
	for _, spec := range f.ast.Imports {
		if dir, ours := strings.CutPrefix(importPath(spec), module+"/"); ours {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return path
}

// tree parses every Go file of the module, generated ones too.
func tree(t *testing.T) []file {
	t.Helper()
	const root = "../.."
	var files []file
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "reports") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file{
			dir: filepath.ToSlash(filepath.Dir(rel)), name: filepath.Base(rel),
			ast: parsed, test: strings.HasSuffix(path, "_test.go"),
		})
		return nil
	})
	if err != nil {
		t.Fatalf("parse the tree: %v", err)
	}
	if len(files) < 10 {
		t.Fatalf("parsed %d files, want the whole tree", len(files))
	}
	return files
}

// under tells whether dir is root or below it.
func under(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }
