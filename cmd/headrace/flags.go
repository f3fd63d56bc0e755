package main

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// bytesFlag is a flag that is a number of bytes: plain, or with a unit of 1024s.
type bytesFlag struct{ n *int64 }

func bytesVar(cmd *cobra.Command, n *int64, name, usage string) {
	cmd.Flags().Var(bytesFlag{n}, name, usage)
}

func (b bytesFlag) Type() string { return "bytes" }

// String gives the zero value where the flag has no number yet, as pflag asks for it.
func (b bytesFlag) String() string {
	if b.n == nil {
		return "0"
	}
	return strconv.FormatInt(*b.n, 10)
}

func (b bytesFlag) Set(text string) error {
	digits := strings.TrimRight(text, "KMGTiB")
	shift, known := map[string]int{"": 0, "B": 0, "K": 10, "KiB": 10, "M": 20, "MiB": 20, "G": 30, "GiB": 30, "T": 40, "TiB": 40}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n > math.MaxInt64>>shift || n < 0 {
		return errors.New("a number of bytes, as 1073741824 or 1GiB")
	}
	*b.n = n << shift
	return nil
}

// choices has the shell complete a flag's value to one of these.
func choices(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that the command has not; a test completes them all.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// scenarios has the shell complete an argument to a scenario file.
func scenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}
