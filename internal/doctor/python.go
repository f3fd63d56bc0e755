package doctor

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// python compares the version of the installed package with this program's: the
// two come from one wheel, but a command found first in PATH may be older.
func (s System) python(ctx context.Context) Check {
	c := Check{Name: "Python package", Status: OK}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const ask = `from importlib.metadata import version, PackageNotFoundError
try: print(version("headrace"))
except PackageNotFoundError: print("none")`
	out, err := exec.CommandContext(ctx, s.Python, "-P", "-c", ask).Output()
	version := strings.TrimSpace(string(out))
	switch {
	case err != nil:
		c.Status, c.Found = Note, s.Python+" does not run: "+err.Error()
	case version == "none":
		c.Status, c.Found = Note, "not installed for "+s.Python
		c.Advice = "only needed for training in Python: pip install the wheel (make wheel)"
	case version != s.Version:
		c.Status, c.Found = Warn, "version "+version+", this command is "+s.Version
		c.Advice = "install both from one wheel; `which -a headrace` shows which command is found first"
	default:
		c.Found = "version " + version
	}
	return c
}
