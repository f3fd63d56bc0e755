package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/headrace/headrace/nd"
)

// Exit codes of what cannot be started, as shells have them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// command is the program of the workers and its arguments, without its own name.
type command struct {
	path string
	args []string
}

// runPath is what --run-path has the interpreter do.
const runPath = `import runpy,sys;del sys.argv[0];runpy.run_path(sys.argv[0],run_name="__main__")`

// missing is a program or script that cannot be started, with its exit code.
type missing struct {
	code int
	text string
}

func (m *missing) Error() string { return m.text }

// Is makes a program that is not there nd.ErrNotFound, one that cannot be run nd.ErrIO.
func (m *missing) Is(target error) bool {
	return target == nd.ErrNotFound && m.code == codeNotFound || target == nd.ErrIO && m.code == codeNotExecutable
}

// command finds the program, and the script where it is a file, before any worker
// starts.
func (s *Spec) command() (command, error) {
	if s.NoPython && !s.RunPath {
		path, err := s.program(s.Script)
		return command{path, s.Args}, err
	}
	if !s.Module {
		if err := readable(s.Script); err != nil {
			return command{}, err
		}
	}
	path, err := s.interpreter()
	args := []string{"-u"}
	switch {
	case s.RunPath:
		args = append(args, "-c", runPath)
	case s.Module:
		args = append(args, "-m")
	}
	return command{path, append(append(args, s.Script), s.Args...)}, err
}

// of gives one worker's arguments, its program's name first.
func (c command) of(local int) []string {
	argv := make([]string, 0, len(c.args)+1)
	argv = append(argv, c.path)
	for _, arg := range c.args {
		argv = append(argv, strings.ReplaceAll(arg, "${local_rank}", strconv.Itoa(local)))
	}
	return argv
}

// interpreter is PYTHON_EXEC, else the first Python of PATH.
func (s *Spec) interpreter() (string, error) {
	if name, ok := s.lookup("PYTHON_EXEC"); ok && name != "" {
		return s.program(name)
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := s.program(name); err == nil {
			return path, nil
		}
	}
	return "", &missing{codeNotFound, "there is no python3 on PATH to run " + s.Script + " with: set PYTHON_EXEC, or use --no-python"}
}

// program finds an executable as execvp does: by PATH where its name has no slash.
func (s *Spec) program(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	list, _ := s.lookup("PATH")
	var refused error
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		if dir == "" || dir == "." {
			path = "./" + name
		}
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if m, ok := errors.AsType[*missing](err); ok && m.code == codeNotExecutable {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	text := fmt.Sprintf("there is no program %s on PATH", name)
	if _, err := os.Stat(name); err == nil {
		text += fmt.Sprintf(": ./%s is the one in this folder", name)
	}
	return "", &missing{codeNotFound, text}
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &missing{codeNotExecutable, fmt.Sprintf("program %s cannot be reached: permission denied", path)}
	case err != nil:
		return &missing{codeNotFound, fmt.Sprintf("there is no program %s", path)}
	case info.IsDir():
		return &missing{codeNotExecutable, fmt.Sprintf("%s is a folder, not a program", path)}
	}
	const executeAccess = 1 // X_OK, of access(2)
	if info.Mode().Perm()&0o111 == 0 || syscall.Access(path, executeAccess) != nil {
		return &missing{codeNotExecutable, fmt.Sprintf("program %s is not executable: chmod +x it, or, if it is a Python script, leave --no-python away", path)}
	}
	return nil
}

func readable(script string) error {
	_, err := os.Stat(script)
	if err == nil {
		const readAccess = 4 // R_OK
		err = syscall.Access(script, readAccess)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return &missing{codeNotExecutable, fmt.Sprintf("script %s cannot be read: permission denied", script)}
	}
	return &missing{codeNotFound, fmt.Sprintf("there is no script %s", script)}
}
