package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the import path of the repository's root.
const Module = "github.com/headrace/headrace"

// Problem is one breach of a rule.
type Problem struct {
	Where string // path, with a line where there is one
	What  string // the breach, and why the rule exists
}

func (p Problem) String() string { return p.Where + ": " + p.What }

// File is one Go file, whatever its build tags.
type File struct {
	Path   string // relative to the root, with slashes
	Folder string // "pipeline", "coord/group"; "" is the root
	Test   bool
	Tagged bool // has a build constraint
	Syntax *ast.File
	Set    *token.FileSet
}

// at is the place of a node for a Problem.
func (f *File) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, f.Set.Position(n.Pos()).Line)
}

// imports lists the import paths of the file.
func (f *File) imports() []string {
	var paths []string
	for _, spec := range f.Syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// ParseFile makes a File of source text; the path decides folder and kind. All
// files of a package need the same set.
func ParseFile(set *token.FileSet, name string, source []byte) (*File, error) {
	syntax, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	folder := path.Dir(name)
	if folder == "." {
		folder = ""
	}
	return &File{
		Path:   name,
		Folder: folder,
		Test:   strings.HasSuffix(name, "_test.go"),
		Tagged: tagged(syntax),
		Syntax: syntax,
		Set:    set,
	}, nil
}

func tagged(syntax *ast.File) bool {
	for _, group := range syntax.Comments {
		for _, c := range group.List {
			if c.Pos() < syntax.Package && constraint.IsGoBuild(c.Text) {
				return true
			}
		}
	}
	return false
}

// skipped are folders that hold no source of ours; names with a leading dot
// are skipped too, save .ci.
var skipped = []string{"bin", "build", "data", "dist", "node_modules", "__pycache__"}

// walk calls visit for every file of the repository.
func walk(root string, visit func(name string) error) error {
	return filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		base := entry.Name()
		hidden := strings.HasPrefix(base, ".") && base != ".ci" && full != root
		if entry.IsDir() {
			if hidden || slices.Contains(skipped, base) || strings.HasSuffix(base, ".egg-info") {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || base == ".git" { // a file where the tree is a second one of its repository
			return nil
		}
		return visit(filepath.ToSlash(name))
	})
}

// GoFiles parses every Go file below root that is not generated. The tools
// folder is a module of its own and holds none.
func GoFiles(root string) ([]*File, error) {
	var files []*File
	set := token.NewFileSet()
	err := walk(root, func(name string) error {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
			return nil
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		file, err := ParseFile(set, name, source)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file.Syntax) {
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

// Text is a file that a person reads.
type Text struct {
	Path string
	Body string
}

// Texts reads every file below root that holds no NUL byte and is no larger
// than 1 MiB.
func Texts(root string) ([]Text, error) {
	var texts []Text
	err := walk(root, func(name string) error {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Size() > 1<<20 {
			return err
		}
		body, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if bytes.IndexByte(body, 0) < 0 {
			texts = append(texts, Text{name, string(body)})
		}
		return nil
	})
	return texts, err
}
