// Package lint holds the rules of the project that a linter cannot know: who
// may import whom, where cgo, the environment and global state are allowed, and
// which words say nothing. Each rule is a function from sources to problems;
// its test runs it over the repository and over a bad sample, so that a rule
// that cannot fire is found too.
//
//	tree.go     reads the repository: Go files with their syntax, text files
//	imports.go  the table of folders, cgo and unsafe, pure packages
//	source.go   init, environment, sleep, package variables, printing, docs
//	words.go    words in names, text that belongs to one machine
package lint
