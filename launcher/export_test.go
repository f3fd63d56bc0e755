package launcher

import "time"

// What the tests of real processes need of the inside.

// FindPython is the interpreter that a job without PYTHON_EXEC takes.
func FindPython(env []string) (string, error) {
	s := Default()
	s.Env, s.Script = env, "x"
	return s.interpreter()
}

// SetKillBound shortens the wait for a process that SIGKILL does not end.
func SetKillBound(s *Spec, d time.Duration) { s.killBound = d }
