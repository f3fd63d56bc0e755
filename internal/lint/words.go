package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// empty are words that say nothing about the data.
var empty = []string{"manager", "helper", "helpers", "util", "utils", "utility", "handler", "service", "misc"}

const emptyWhy = "says nothing about the data: take the field's word (sample, crop, chunk, plan, wave, slab, slot, batch), or say what it does"

// words splits a name at underscores, dots, dashes and capitals.
func words(name string) []string {
	var list []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			list = append(list, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	previous := rune(0)
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			flush()
			previous = r
			continue
		case unicode.IsUpper(r) && unicode.IsLower(previous):
			flush()
		}
		word = append(word, r)
		previous = r
	}
	flush()
	return list
}

// emptyWord is the first of a name's words that says nothing, or "".
func emptyWord(name string) string {
	for _, w := range words(name) {
		if slices.Contains(empty, w) {
			return w
		}
	}
	return ""
}

// Names checks the declared names of Go files: types, functions, variables,
// constants, fields and parameters.
func Names(files []*File) []Problem {
	var problems []Problem
	for _, f := range files {
		check := func(id *ast.Ident) {
			if w := emptyWord(id.Name); w != "" {
				problems = append(problems, Problem{f.at(id), fmt.Sprintf("name %s: %q %s", id.Name, w, emptyWhy)})
			}
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			for _, id := range declared(n) {
				check(id)
			}
			return true
		})
	}
	return problems
}

// declared lists the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch d := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{d.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{d.Name}
	case *ast.ValueSpec:
		return d.Names
	case *ast.Field:
		return d.Names
	case *ast.AssignStmt:
		if d.Tok.String() != ":=" {
			return nil
		}
		var ids []*ast.Ident
		for _, e := range d.Lhs {
			if id, ok := e.(*ast.Ident); ok {
				ids = append(ids, id)
			}
		}
		return ids
	}
	return nil
}

var pythonName = regexp.MustCompile(`(?m)^\s*(?:async\s+)?(?:def|class)\s+(\w+)`)

// Paths checks the names of files and folders, and the functions and classes of
// Python files.
func Paths(texts []Text) []Problem {
	var problems []Problem
	for _, t := range texts {
		if w := emptyWord(t.Path); w != "" {
			problems = append(problems, Problem{t.Path, fmt.Sprintf("%q in a path %s", w, emptyWhy)})
		}
		if path.Ext(t.Path) != ".py" {
			continue
		}
		for _, m := range pythonName.FindAllStringSubmatch(t.Body, -1) {
			if w := emptyWord(m[1]); w != "" {
				problems = append(problems, Problem{t.Path, fmt.Sprintf("name %s: %q %s", m[1], w, emptyWhy)})
			}
		}
	}
	return problems
}

// foreign are texts that tie the repository to one machine or one mirror. They
// are put together here so that this file does not hold them.
var foreign = []struct{ text, why string }{
	{"/wo" + "rk/", "a path of one machine: write it relative to the repository"},
	{"/ho" + "me/", "a path of one machine: write it relative to the repository"},
	{"proxy." + "golang.org", "the host of a registry: the client knows it"},
	{"sum." + "golang.org", "the host of a registry: the client knows it"},
	{"vuln." + "go.dev", "the host of a registry: the client knows it"},
	{"py" + "pi.org", "the host of a registry: the client knows it"},
	{"files.python" + "hosted.org", "the host of a registry: the client knows it"},
	{"registry." + "npmjs.org", "the host of a registry: the client knows it"},
	{"deb." + "debian.org", "the host of a registry: the client knows it"},
	{"security." + "debian.org", "the host of a registry: the client knows it"},
	{"crates" + ".io", "the host of a registry: the client knows it"},
}

// Foreign checks that no text names one machine's paths or a registry's host.
func Foreign(texts []Text) []Problem {
	var problems []Problem
	for _, t := range texts {
		for number, line := range strings.Split(t.Body, "\n") {
			for _, f := range foreign {
				if strings.Contains(line, f.text) {
					problems = append(problems, Problem{fmt.Sprintf("%s:%d", t.Path, number+1), fmt.Sprintf("%q is %s", f.text, f.why)})
				}
			}
		}
	}
	return problems
}
