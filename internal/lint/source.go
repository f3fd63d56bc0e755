package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// goStatements lists where a file starts a goroutine: go statements, and calls of a Go.
func goStatements(f *File) []ast.Node {
	var found []ast.Node
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.GoStmt:
			found = append(found, x)
		case *ast.CallExpr: // sync.WaitGroup's Go, and errgroup's
			if sel, ok := x.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				found = append(found, x)
			}
		}
		return true
	})
	return found
}

// Inits forbids init functions: what a package needs is built by who asks for it.
func Inits(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		for _, decl := range f.Syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.Test {
				problems = append(problems, Problem{f.at(fn), "init runs in every program that imports the package, a trainer too: build the value where it is used, or by sync.OnceValue"})
			}
		}
	}
	return problems
}

// call is a selector on an imported package that some folders may not use.
type call struct {
	pkg   string // import path
	names []string
	where []string // folders that may
	tests bool     // test files may
	// programs of any folder may: package main, a generator for example.
	programs bool
	why      string
}

var calls = []call{
	{
		pkg: "os", names: []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, where: []string{"rank", "launcher", "cmd", "examples"}, tests: true,
		why: "the environment is read in rank, launcher and in programs: inside Python the variables come as an argument, since Go cannot see os.environ",
	},
	{
		pkg: "time", names: []string{"Sleep"}, tests: true,
		why: "a sleep is a guess and wakes for nobody: wait for the event, or for a timer and the context",
	},
	{
		pkg: "fmt", names: []string{"Print", "Printf", "Println"}, where: []string{"cmd", "examples"},
		why: "standard output belongs to the trainer: return an error, a Stats value, or call the Listener",
	},
	{
		pkg: "os", names: []string{"Exit"}, where: []string{"cmd", "examples"}, tests: true, programs: true,
		why: "a library does not end somebody else's process",
	},
}

// Calls checks uses of the standard library that only some folders may make.
func Calls(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		names := importNames(f)
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			for _, c := range calls {
				if names[x.Name] == c.pkg && c.forbids(f, sel.Sel.Name) {
					problems = append(problems, Problem{f.at(sel), fmt.Sprintf("%s.%s: %s", x.Name, sel.Sel.Name, c.why)})
				}
			}
			return true
		})
	}
	return problems
}

func (c call) forbids(f *File, name string) bool {
	if f.Test && c.tests || f.Syntax.Name.Name == "main" && c.programs {
		return false
	}
	for _, folder := range c.where {
		if within(f.Folder, folder) {
			return false
		}
	}
	return slices.Contains(c.names, name)
}

// importNames maps the local name of an import to its path.
func importNames(f *File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Syntax.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

// Logging forbids loggers below the commands.
func Logging(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		if f.Test || within(f.Folder, "cmd") || within(f.Folder, "launcher") || within(f.Folder, "coord/agent") {
			continue
		}
		for _, imported := range f.imports() {
			if imported == "log" && f.Path == "metrics/server.go" {
				continue // to keep http.Server from printing
			}
			if imported == "log" || imported == "log/slog" {
				problems = append(problems, Problem{f.Path, imported + ": a library has no logger; it returns errors, offers Stats and calls the Listener"})
			}
		}
	}
	return problems
}

// Globals forbids package-level variables that a function changes, or whose type
// exists to be changed. cabi is exempt: the handles that C holds need a table
// that outlives every call.
func Globals(files []*File) []Problem {
	var problems []Problem
	for _, pkg := range byPackage(files) {
		if within(pkg[0].Folder, "cabi") {
			continue
		}
		problems = append(problems, stateTypes(pkg)...)
		problems = append(problems, changed(pkg)...)
	}
	return problems
}

// byPackage groups the non-test files of each folder and package name.
func byPackage(files []*File) [][]*File {
	groups := map[string]int{}
	var packages [][]*File
	for _, f := range files {
		if f.Test {
			continue
		}
		key := f.Folder + " " + f.Syntax.Name.Name
		at, ok := groups[key]
		if !ok {
			at = len(packages)
			groups[key] = at
			packages = append(packages, nil)
		}
		packages[at] = append(packages[at], f)
	}
	return packages
}

const globalWhy = "package state is shared by every pipeline of the process and by every test: make it a field"

// stateTypes finds package variables of types from sync and sync/atomic. A
// sync.OnceValue is a function, not a state: it gives one value for ever.
func stateTypes(pkg []*File) []Problem {
	var problems []Problem
	for _, f := range pkg {
		names := importNames(f)
		for _, decl := range f.Syntax.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				vs := spec.(*ast.ValueSpec)
				if used := stateful(vs, names); used != "" {
					problems = append(problems, Problem{f.at(vs), fmt.Sprintf("package variable %s is a %s: %s", vs.Names[0].Name, used, globalWhy)})
				}
			}
		}
	}
	return problems
}

func stateful(vs *ast.ValueSpec, names map[string]string) string {
	found := ""
	look := func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok || strings.HasPrefix(sel.Sel.Name, "Once") && sel.Sel.Name != "Once" {
			return true
		}
		if path := names[x.Name]; path == "sync" || path == "sync/atomic" {
			found = x.Name + "." + sel.Sel.Name
		}
		return true
	}
	if vs.Type != nil {
		ast.Inspect(vs.Type, look)
	}
	for _, v := range vs.Values {
		ast.Inspect(v, look)
	}
	return found
}

// changed finds assignments to package variables inside functions. Types are
// checked with every import unknown: that is enough to tell a package variable
// from a local of the same name.
func changed(pkg []*File) []Problem {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, Importer: noImports{}, FakeImportC: true}
	var syntax []*ast.File
	for _, f := range pkg {
		syntax = append(syntax, f.Syntax)
	}
	// Errors are expected, since the imports are unknown; what resolves is enough.
	checked, _ := config.Check(pkg[0].Folder, pkg[0].Set, syntax, info)
	var problems []Problem
	for _, f := range pkg {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			for _, target := range targets(n) {
				id := root(target)
				if id == nil {
					continue
				}
				if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == checked.Scope() {
					problems = append(problems, Problem{f.at(n), fmt.Sprintf("package variable %s is changed: %s", id.Name, globalWhy)})
				}
			}
			return true
		})
	}
	return problems
}

// targets lists the expressions that a statement changes.
func targets(n ast.Node) []ast.Expr {
	switch s := n.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			return s.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{s.X}
	case *ast.UnaryExpr:
		if s.Op == token.AND {
			return []ast.Expr{s.X} // an address lets others change it
		}
	}
	return nil
}

// root is the variable at the start of x.field[i].
func root(e ast.Expr) *ast.Ident {
	switch x := e.(type) {
	case *ast.Ident:
		return x
	case *ast.IndexExpr:
		return root(x.X)
	case *ast.SelectorExpr:
		return root(x.X)
	case *ast.StarExpr:
		return root(x.X)
	case *ast.ParenExpr:
		return root(x.X)
	}
	return nil
}

// noImports gives an empty package for every path.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	pkg.MarkComplete()
	return pkg, nil
}

// Docs asks for a comment on every exported name.
func Docs(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		if f.Test || f.Syntax.Name.Name == "main" {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			for _, name := range undocumented(decl) {
				problems = append(problems, Problem{f.at(name), fmt.Sprintf("%s is exported and has no comment: say what it is, who owns its memory, what it never does", name.Name)})
			}
		}
	}
	return problems
}

func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil // one comment may speak for a group
		}
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Doc == nil && s.Name.IsExported() {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
			return s.Names[:1]
		}
	}
	return nil
}

// wellKnown are methods whose meaning an interface of the standard library fixes.
var wellKnown = map[string]bool{
	"Error": true, "Unwrap": true, "Is": true, "String": true, "Len": true, "Less": true, "Swap": true, "Push": true, "Pop": true,
	"Read": true, "Write": true, "Close": true, "MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	if wellKnown[d.Name.Name] {
		return false
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}
