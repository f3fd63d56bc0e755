package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../.."

// sourceRules take the Go files of the repository.
var sourceRules = map[string]func([]*File) []Problem{
	"imports": Imports,
	"cgo":     Cgo,
	"pure":    Pure,
	"inits":   Inits,
	"calls":   Calls,
	"logging": Logging,
	"globals": Globals,
	"docs":    Docs,
	"names":   Names,
}

// textRules take all text of the repository.
var textRules = map[string]func([]Text) []Problem{
	"paths":   Paths,
	"foreign": Foreign,
}

func report(t *testing.T, problems []Problem) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

func TestSource(t *testing.T) {
	files, err := GoFiles(repository)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range sourceRules {
		t.Run(name, func(t *testing.T) { report(t, rule(files)) })
	}
}

func TestText(t *testing.T) {
	texts, err := Texts(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 10 {
		t.Fatalf("only %d texts found below %s: the walk is broken", len(texts), repository)
	}
	for name, rule := range textRules {
		t.Run(name, func(t *testing.T) { report(t, rule(texts)) })
	}
}

func TestReach(t *testing.T) {
	packages, err := closures()
	if err != nil {
		t.Fatal(err)
	}
	report(t, Reach(packages))
}

// closures asks the go command what every package of the module reaches.
func closures() ([]Closure, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Deps", "./...")
	cmd.Dir = filepath.FromSlash(repository)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	var packages []Closure
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, Closure{p.ImportPath, p.Deps})
	}
}

// TestTableNamesFolders keeps the rows free of typing errors: a folder that a
// row may import has a row of its own.
func TestTableNamesFolders(t *testing.T) {
	for name, r := range folders {
		if r.why == "" {
			t.Errorf("row %s gives no reason", name)
		}
		for _, other := range r.ours {
			if _, ok := folders[other]; !ok && other != "*" {
				t.Errorf("row %s names folder %s, which has no row", name, other)
			}
		}
	}
}

// fires is a bad source of one rule, with a part of the message it must give.
type fires struct{ rule, path, source, want string }

var badSources = []fires{
	{"imports", "zarr/a.go", `package zarr; import _ "github.com/headrace/headrace/store"`, "zarr may not import"},
	{"imports", "nd/a.go", `package nd; import _ "golang.org/x/sys/unix"`, "nd may not import"},
	{"imports", "zarr/deep/a.go", `package deep; import _ "github.com/headrace/headrace/codec"`, "zarr may not import"},
	{"imports", "novel/a.go", `package novel`, "has no row"},
	{"imports", "pipeline/a.go", `package pipeline; import _ "github.com/headrace/headrace/coord"`, "pipeline may not import"},
	{"cgo", "pipeline/a.go", `package pipeline; import _ "unsafe"`, "unsafe belongs in"},
	{"cgo", "codec/a.go", `package codec; import "C"`, "C belongs in"},
	{"pure", "zarr/a.go", `package zarr; import _ "os"`, "may not import os"},
	{"pure", "sampler/a.go", `package sampler; func f() { go f() }`, "may not start a goroutine"},
	{"pure", "sampler/a.go", `package sampler; import "sync"; func f() { var w sync.WaitGroup; w.Go(f) }`, "may not start a goroutine"},
	{"pure", "coord/group/a.go", `package group; import "time"; var _ = time.Now`, "may not look at a clock"},
	{"pure", "launcher/keeper.go", `package launcher; import "time"; var _ = time.Now`, "may not look at a clock"},
	{"pure", "zarr/a.go", `package zarr; import "time"; var _ time.Duration`, "may not import time"},
	{"inits", "store/a.go", `package store; func init() {}`, "init runs in every program"},
	{"calls", "store/a.go", `package store; import "os"; var _ = os.Getenv("HOME")`, "the environment is read in rank"},
	{"calls", "store/a.go", `package store; import env "os"; var _, _ = env.LookupEnv("HOME")`, "the environment is read in rank"},
	{"calls", "store/a.go", `package store; import "time"; func f() { time.Sleep(1) }`, "a sleep is a guess"},
	{"calls", "store/a.go", `package store; import "fmt"; func f() { fmt.Println() }`, "standard output belongs"},
	{"calls", "store/a_test.go", `package store; import "fmt"; func f() { fmt.Println() }`, "standard output belongs"},
	{"calls", "store/a.go", `package store; import "os"; func f() { os.Exit(1) }`, "does not end"},
	{"logging", "store/a.go", `package store; import _ "log/slog"`, "has no logger"},
	{"globals", "store/a.go", `package store; var n int; func f() { n = 1 }`, "n is changed"},
	{"globals", "store/a.go", `package store; var n int; func f() { n++ }`, "n is changed"},
	{"globals", "store/a.go", `package store; var m = map[int]int{}; func f() { m[1] = 2 }`, "m is changed"},
	{"globals", "store/a.go", `package store; var n struct{ x int }; func f() { n.x = 2 }`, "n is changed"},
	{"globals", "store/a.go", `package store; var n int; func f() *int { return &n }`, "n is changed"},
	{"globals", "store/a.go", `package store; import "sync"; var mu sync.Mutex`, "mu is a sync.Mutex"},
	{"globals", "store/a.go", `package store; import "sync"; var p = &sync.Pool{}`, "p is a sync.Pool"},
	{"docs", "store/a.go", `package store; func Do() {}`, "Do is exported"},
	{"docs", "store/a.go", `package store; type T int; func (t *T) Do() {}`, "Do is exported"},
	{"names", "store/a.go", `package store; type fileManager int`, `"manager" says nothing`},
	{"names", "store/a.go", `package store; func readHandler() {}`, `"handler" says nothing`},
	{"names", "store/a.go", `package store; func f() { path_util := 1; _ = path_util }`, `"util" says nothing`},
}

func TestRulesFire(t *testing.T) {
	for _, bad := range badSources {
		problems := sourceRules[bad.rule](parse(t, bad.path, bad.source))
		if !mentions(problems, bad.want) {
			t.Errorf("%s: %s\n%s\ngave %v, want a problem with %q", bad.rule, bad.path, bad.source, problems, bad.want)
		}
	}
}

var goodSources = []fires{
	{rule: "imports", path: "zarr/a.go", source: `package zarr; import _ "github.com/headrace/headrace/nd"`},
	{rule: "imports", path: "zarr/a_test.go", source: `package zarr; import _ "github.com/headrace/headrace/store"`},
	{rule: "imports", path: "store/storetest/a.go", source: `package storetest; import _ "github.com/headrace/headrace/store"`},
	{rule: "cgo", path: "codec/a.go", source: "//go:build cgo\n\npackage codec\n\nimport \"C\""},
	{rule: "cgo", path: "cabi/a.go", source: `package main; import "C"`},
	{rule: "calls", path: "rank/a.go", source: `package rank; import "os"; var _ = os.Getenv("HOME")`},
	{rule: "calls", path: "store/a.go", source: `package store; type env struct{}; func (env) Getenv() {}; func f(os env) { os.Getenv() }`},
	{rule: "globals", path: "store/a.go", source: `package store; var n int; func f() { n := 1; n++; _ = n }`},
	{rule: "globals", path: "store/a.go", source: `package store; import "sync"; var table = sync.OnceValue(func() int { return 1 })`},
	{rule: "globals", path: "store/a.go", source: `package store; import "errors"; var ErrX = errors.New("x")`},
	{rule: "pure", path: "launcher/keeper.go", source: `package launcher; import "time"; var _ time.Duration`},
	{rule: "pure", path: "launcher/live.go", source: `package launcher; import "time"; var _ = time.Now`},
	{rule: "docs", path: "store/a.go", source: "package store\n\n// Do does.\nfunc Do() {}\n\ntype t int\n\nfunc (t) Do() {}"},
	{rule: "names", path: "store/a_test.go", source: `package store; import "testing"; func f(t *testing.T) { t.Helper() }`},
}

// TestRulesSpare keeps the rules from crying wolf.
func TestRulesSpare(t *testing.T) {
	for _, good := range goodSources {
		if problems := sourceRules[good.rule](parse(t, good.path, good.source)); len(problems) > 0 {
			t.Errorf("%s: %s\n%s\ngave %v, want none", good.rule, good.path, good.source, problems)
		}
	}
}

func TestTextRulesFire(t *testing.T) {
	for _, bad := range []struct{ rule, path, body, want string }{
		{"paths", "store/file_helper.txt", "", `"helper" in a path`},
		{"paths", "python/utils/a.py", "", `"utils" in a path`},
		{"paths", "python/a.py", "class ChunkManager:\n", `"manager" says nothing`},
		{"foreign", "README.md", "one\nsee /wo" + "rk/x", "README.md:2"},
		{"foreign", "Makefile", "pip -i https://py" + "pi.org", "host of a registry"},
	} {
		problems := textRules[bad.rule]([]Text{{bad.path, bad.body}})
		if !mentions(problems, bad.want) {
			t.Errorf("%s: %s %q gave %v, want a problem with %q", bad.rule, bad.path, bad.body, problems, bad.want)
		}
	}
}

func TestReachFires(t *testing.T) {
	for _, bad := range []struct{ path, dep, want string }{
		{"cabi", "os/signal", "Ctrl-C"},
		{"loader", Module + "/coord", "coordinator dead"},
		{"pipeline/deep", Module + "/coord/group", "coordinator dead"},
		{"examples/gonative", Module + "/launcher", "only cmd may"},
	} {
		problems := Reach([]Closure{{Module + "/" + bad.path, []string{"fmt", bad.dep}}})
		if !mentions(problems, bad.want) {
			t.Errorf("%s reaching %s gave %v, want a problem with %q", bad.path, bad.dep, problems, bad.want)
		}
	}
	if problems := Reach([]Closure{{Module + "/cmd/headrace", []string{Module + "/launcher", "os/signal"}}}); len(problems) > 0 {
		t.Errorf("cmd may reach launcher, but got %v", problems)
	}
}

func parse(t *testing.T, path, source string) []*File {
	t.Helper()
	f, err := ParseFile(token.NewFileSet(), path, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return []*File{f}
}

func mentions(problems []Problem, text string) bool {
	for _, p := range problems {
		if strings.Contains(p.String(), text) {
			return true
		}
	}
	return false
}
