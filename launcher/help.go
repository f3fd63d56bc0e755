package launcher

import (
	"fmt"
	"strings"
)

// Help is the text of --help.
func Help() string {
	var b strings.Builder
	b.WriteString(`Start the ranks of a job on this node, and stay until they are gone: torchrun's
flags, environment, logs and reports. Flags end at the script; nothing behind it is
looked at. --flag value and --flag=value, --a-b and --a_b are the same.

Usage:
  headrace launch [flags] script [arguments]

Examples:
  headrace launch --nproc-per-node 2 train.py --lr 0.1
  headrace launch --nproc-per-node 8 --no-python ./trainer
  headrace launch --nnodes 2 --node-rank 0 --master-addr host0 train.py

Flags:
`)
	var ours []option
	for _, o := range options() {
		if o.ours {
			ours = append(ours, o)
			continue
		}
		writeOption(&b, o)
	}
	b.WriteString("\nFlags that torchrun has not, never matched by a prefix:\n")
	for _, o := range ours {
		writeOption(&b, o)
	}
	b.WriteString(`
The default of a flag can be set by PET_<FLAG>, PET_NPROC_PER_NODE=2 for example.
Exit code: the first failed worker's own; 128+N for signal N; 2 for wrong flags; 127
or 126 for a script that is missing or cannot be run; 75 for a live job without a
majority; 1 for the launcher's own troubles.
`)
	return b.String()
}

func writeOption(b *strings.Builder, o option) {
	name := "    --" + o.name
	if o.short != 0 {
		name = fmt.Sprintf("-%c, --%s", o.short, o.name)
	}
	if o.value != "" {
		name += " " + o.value
	}
	const column = 38
	if len(name) > column-2 {
		fmt.Fprintf(b, "  %s\n  %*s%s\n", name, column, "", o.help)
		return
	}
	fmt.Fprintf(b, "  %-*s%s\n", column, name, o.help)
}

// Complete lists the flags that begin with a word.
func Complete(word string) []string {
	var list []string
	for _, o := range options() {
		if name := "--" + o.name; strings.HasPrefix(name, word) {
			list = append(list, name)
		}
	}
	return list
}

// CompleteValue lists the values that begin with a word, where the word is a flag's value: behind
// the last of the words, or in the word itself behind a =. named is false where it is none, and
// where the flag takes more values than can be told.
func CompleteValue(words []string, word string) (values []string, named bool) {
	flag, value, attached := strings.Cut(word, "=")
	if !attached && len(words) > 0 {
		flag, value = words[len(words)-1], word
	}
	if !isFlag(flag) {
		return nil, false
	}
	found, err := matchFlag(flag, options())
	if err != nil || found[len(found)-1].choices == nil {
		return nil, false
	}
	for _, v := range found[len(found)-1].choices {
		if strings.HasPrefix(v, value) {
			values = append(values, v)
		}
	}
	return values, true
}

// InScript says whether words of a command line already reach the script, so that
// what follows is its own.
func InScript(words []string) bool {
	_, rest, _ := split(words, options())
	return len(rest) > 0
}

// Completion is a script for a shell that completes this command's flags and file
// names.
func Completion(shell Show) string {
	flags := strings.Join(Complete("--"), " ")
	switch shell {
	case ShowBash:
		return `_headrace_launch() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "` + flags + `" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _headrace_launch headrace
`
	case ShowZsh:
		return "#compdef headrace\n_headrace() {\n  if [[ $words[CURRENT] == -* ]]; then\n    compadd -- " + flags + "\n  else\n    _files\n  fi\n}\ncompdef _headrace headrace\n"
	case ShowTcsh:
		return "complete headrace 'c/-/(" + flags + ")/' 'n/*/f/'\n"
	}
	return ""
}
