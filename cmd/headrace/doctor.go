package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/coord/agent"
	"github.com/headrace/headrace/internal/doctor"
)

func (a *app) doctor() *cobra.Command {
	var path, python, keyFile string
	var gossip []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this machine and say what to do",
		Long: `Look at this machine: cores, memory, limits, build, io_uring, Python package, and of each GPU
the driver, kernels, free memory, PCIe link, pinning of the page cache and NUMA node;
with --path, the speed of a folder; with --gossip, whether agents of other nodes can be
reached from here, by TCP and by UDP, with the job's key. Nothing is changed. It fails
only if something that was asked for does not work.`,
		Example: "  headrace doctor\n  headrace doctor --path /data\n  headrace doctor --gossip 10.0.0.1:7946,10.0.0.2:7946 --key-file key",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := doctor.System{Root: "/", Version: version, Zstd: codec.ZstdLibrary, Path: path, Python: python}
			if !cmd.Flags().Changed("python") {
				s.Python, _ = exec.LookPath("python3")
			}
			s.Libraries = filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
			s.MPS = os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
			if err := gossipFlags(gossip, keyFile); err != nil {
				return err
			}
			if s.Gossip = gossip; len(gossip) > 0 {
				key, err := readKey(keyFile)
				if err != nil {
					return err
				}
				s.Reach = func(ctx context.Context, address string) agent.Reach { return agent.Probe(ctx, address, key) }
			}
			checks := doctor.Run(cmd.Context(), s)
			if err := a.printChecks(checks); err != nil {
				return err
			}
			for _, c := range checks {
				if c.Status == doctor.Fail {
					return errors.New(c.Name + ": " + c.Found)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "path", "", "measure reads of the files in this folder")
	cmd.Flags().StringSliceVar(&gossip, "gossip", nil, "host:port of agents to reach, separated by commas; may be repeated")
	cmd.Flags().StringVar(&keyFile, "key-file", "", "file with the job's key, for --gossip (default: HEADRACE_KEY_FILE)")
	cmd.Flags().StringVar(&python, "python", "", "interpreter to look for the package in (default: python3)")
	return cmd
}

// gossipFlags finds what cannot be meant.
func gossipFlags(gossip []string, keyFile string) error {
	for _, address := range gossip {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return usagef("--gossip %q: host:port of an agent, as it says when it is ready", address)
		}
	}
	if keyFile != "" && len(gossip) == 0 {
		return usagef("--key-file is for --gossip, which is missing")
	}
	return nil
}

func (a *app) printChecks(checks []doctor.Check) error {
	if a.json {
		return a.printJSON(map[string]any{"version": version, "checks": checks})
	}
	var rows []byte
	for _, c := range checks {
		rows = fmt.Appendf(rows, "%s\t%s\t%s\n", c.Status, c.Name, c.Found)
		if c.Advice != "" {
			rows = fmt.Appendf(rows, "\t\t-> %s\n", c.Advice)
		}
	}
	return a.printTable(rows)
}
