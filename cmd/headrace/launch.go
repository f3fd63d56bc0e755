package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/launcher"
)

// coded is an error with an exit code of its own.
type coded struct {
	error
	code int
}

func (a *app) launch() *cobra.Command {
	return &cobra.Command{
		Use:   "launch [flags] script [arguments]",
		Short: "Start the ranks of a job, as torchrun does",
		Long:  launcher.Help(),
		// torchrun's command line is not pflag's: prefixes, two spellings, and nothing
		// behind the script is looked at.
		DisableFlagParsing: true,
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if launcher.InScript(args) {
				return nil, cobra.ShellCompDirectiveDefault
			}
			if values, ok := launcher.CompleteValue(args, word); ok {
				return values, cobra.ShellCompDirectiveNoFileComp
			}
			if !strings.HasPrefix(word, "-") {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return launcher.Complete(word), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runLaunch(cmd.Context(), args)
		},
	}
}

func (a *app) runLaunch(ctx context.Context, args []string) error {
	spec, err := launcher.Parse(args, os.LookupEnv)
	if err != nil {
		return usageError{err}
	}
	switch spec.Show {
	case "":
	case launcher.ShowHelp:
		_, err = fmt.Fprint(a.stdout, launcher.Help())
		return err
	case launcher.ShowVersion:
		_, err = fmt.Fprintf(a.stdout, "headrace %s\n", version)
		return err
	default:
		_, err = fmt.Fprint(a.stdout, launcher.Completion(spec.Show))
		return err
	}
	spec.Env, spec.Stdout, spec.Stderr, spec.Adopt = os.Environ(), os.Stdout, os.Stderr, true
	spec.Release = version
	if spec.Program, err = os.Executable(); err != nil {
		spec.Program = ""
	}
	a.waitForNobody()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // lost: the job outlives who reads the lines. Workers would inherit a plain ignore
	spec.PrintWarning = func(text string) { _, _ = fmt.Fprintf(a.stderr, "headrace: %s\n", text) }
	result, err := launcher.Run(ctx, spec)
	if report := result.Report(); report != "" {
		_, _ = fmt.Fprintln(a.stderr, report) // where stderr is closed the code still tells
	}
	if err != nil {
		return coded{err, result.Code}
	}
	return nil
}
