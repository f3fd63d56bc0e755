package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headrace/headrace/nd"
)

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	json           bool
	log            *lineLog // of a command whose stderr nobody waits for; nil without
}

// Exit codes. A command line or a config that cannot work is told apart from a
// failure of the work itself, and both from Ctrl-C, where the code is that of
// shells for a process that SIGINT ended: 128 + 2.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the whole program but for its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	defer a.endLog()
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	text, code := err.Error(), exitError
	if own, ok := errors.AsType[coded](err); ok {
		code = own.code
	} else if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		text, code = "interrupted", exitInterrupted
	} else if _, ok := errors.AsType[usageError](err); ok {
		text += fmt.Sprintf(" (see `%s --help`)", cmd.CommandPath())
		code = exitUsage
	} else if errors.Is(err, nd.ErrConfig) {
		code = exitUsage
	}
	if errors.Is(err, nd.ErrDevice) && cmd.Name() != "doctor" {
		text += " (see `headrace doctor`)"
	}
	_, _ = fmt.Fprintf(a.stderr, "headrace: %s\n", oneLine(text)) // where stderr is closed the code still tells
	return code
}

// waitForNobody has what is written to stderr from here on written by a goroutine of its own,
// which run ends: who does not read it does not hold the command up.
func (a *app) waitForNobody() {
	to := a.stderr
	a.log = newLineLog(func(lines int64) line {
		return line{to, fmt.Appendf(nil, "headrace: %s\n", missedLines(lines))}
	})
	a.log.begin()
	a.stderr = patient{a.log, to}
}

func (a *app) endLog() {
	if a.log != nil {
		a.log.end()
	}
}

// oneLine joins the lines of an error: scripts read stderr by lines.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "headrace",
		Short: "Crops of large zarr arrays, as batches for training",
		Long: `headrace streams crops of large zarr arrays as batches for training. This is its
command line: look at arrays, read crops of them, write sample data, measure.

An array is named by a path or a file:// URI.`,
		Version:       version,
		Args:          noCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("headrace {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{meantFlag(cmd, err)} })
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON on stdout")
	root.AddCommand(a.info(), a.read(), a.gen(), a.bench(), a.order(), a.probe(), a.engine(), a.doctor(), a.demo(), a.launch(), a.agent(), a.simulate())
	root.SetHelpCommand(help())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // cobra's own takes any word and exits with 0
			cmd.Args, cmd.RunE = noCommand, root.RunE
		}
	}
	return root
}

// help is cobra's help command, but a command that is not there is an error.
func help() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no help for %q: there is no such command", args)
			}
			of.InitDefaultHelpFlag() // else only a command that runs shows it
			return of.Help()
		},
	}
}

// noCommand turns an unknown command into an error that names the nearest one.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := cmd.SuggestionsFor(args[0])
	if len(near) > 0 {
		return usagef("unknown command %q, did you mean %q?", args[0], near[0])
	}
	return usagef("unknown command %q", args[0])
}

// meantFlag adds to the error of an unknown flag the nearest that there is.
func meantFlag(cmd *cobra.Command, err error) error {
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return err
	}
	var flags cobra.Command // cobra knows what is near among commands
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	flags.SuggestionsMinimumDistance = 2 // letters; as for commands
	if near := flags.SuggestionsFor(unknown.GetSpecifiedName()); len(near) > 0 {
		return fmt.Errorf("%w, did you mean --%s?", err, near[0])
	}
	return err
}

// exactly asks for the named arguments, one each.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s: %s is missing", cmd.Name(), names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("%s: %q is one argument too many", cmd.Name(), args[len(names)])
		}
		return nil
	}
}

// printTable writes rows whose cells end in tabs, in aligned columns.
func (a *app) printTable(rows []byte) error { return table(a.stdout, rows) }

// table aligns the cells of rows, which end in tabs. No line ends in blanks.
func table(out io.Writer, rows []byte) error {
	var aligned bytes.Buffer
	t := tabwriter.NewWriter(&aligned, 0, 8, 2, ' ', 0)
	_, err := t.Write(rows)
	if err = errors.Join(err, t.Flush()); err != nil {
		return err
	}
	for line := range bytes.Lines(aligned.Bytes()) {
		text := bytes.TrimRight(line, " \n")
		if _, err := out.Write(append(text, line[len(bytes.TrimRight(line, "\n")):]...)); err != nil {
			return err
		}
	}
	return nil
}

// printJSON writes v, indented: people read it too.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
