package launcher

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/launcher/rendezvous"
)

// traceback is what the banner shows of a failure.
func traceback(f *rendezvous.Failure) string {
	if m, ok := parseError(f.Error); ok {
		if m.ExtraInfo.Callstack != "" {
			return m.ExtraInfo.Callstack
		}
		return m.Message
	}
	switch {
	case f.Message != "":
		return f.Message
	case f.Signal != 0:
		return fmt.Sprintf("Signal %d (%s) received by PID %d", f.Signal, signalName(f.Signal), f.PID)
	}
	return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
}

// banner is the report of a failed job in torchrun's form: the other failures from
// 1, then the root cause as 0.
func banner(name string, root *rendezvous.Failure, failures []rendezvous.Failure) string {
	rootRows := rows(0, root)
	var others []string
	for i := range failures {
		f := &failures[i]
		if f.Rank != root.Rank || f.Node != root.Node || f.PID != root.PID {
			others = append(others, rows(len(others)/rowsEach+1, f)...)
		}
	}
	if others == nil {
		others = []string{"  <NO_OTHER_FAILURES>"}
	}
	title := name + " FAILED"
	width := min(max(len(title), widest(others), widest(rootRows)), 60)
	double, single := strings.Repeat("=", width), strings.Repeat("-", width)
	lines := append([]string{double, title, single, "Failures:"}, others...)
	lines = append(lines, single, "Root Cause (first observed failure):")
	return strings.Join(append(append(lines, rootRows...), double), "\n")
}

// rowsEach is the number of rows of one failure.
const rowsEach = 7

func rows(index int, f *rendezvous.Failure) []string {
	code, file := f.ExitCode, f.ErrorFile
	if f.Signal != 0 {
		code = -f.Signal
	}
	if file == "" {
		file = "<N/A>"
	}
	return []string{
		fmt.Sprintf("[%d]:", index),
		"  time      : " + f.Time.Format("2006-01-02_15:04:05"),
		"  host      : " + f.Host,
		fmt.Sprintf("  rank      : %d (local_rank: %d)", f.Rank, f.LocalRank),
		fmt.Sprintf("  exitcode  : %d (pid: %d)", code, f.PID),
		"  error_file: " + file,
		"  traceback : " + strings.ReplaceAll(strings.TrimRight(traceback(f), "\n"), "\n", "\n  "),
	}
}

func widest(rows []string) int {
	n := 0
	for _, r := range rows {
		for line := range strings.SplitSeq(r, "\n") {
			n = max(n, len(line))
		}
	}
	return n
}
