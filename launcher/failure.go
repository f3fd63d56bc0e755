package launcher

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/launcher/rendezvous"
	"github.com/headrace/headrace/nd"
)

// maxErrorFile bounds what is read of a worker's error file, which travels to the
// other nodes.
const maxErrorFile = 1 << 20

// errorDocument is what torch's record decorator writes. Message is an object, or
// in old files a text.
type errorDocument struct {
	Message json.RawMessage `json:"message"`
}

type errorMessage struct {
	Message   string `json:"message"`
	ExtraInfo struct {
		Callstack string          `json:"py_callstack"`
		Timestamp json.RawMessage `json:"timestamp"` // seconds, as a text or as a number
	} `json:"extraInfo"`
}

// failureOf describes a worker's death; nil for exit code 0. A worker that wrote an
// error file failed at the time the file has, and died later.
func failureOf(p place, host string, pid int, status syscall.WaitStatus, at time.Time) *rendezvous.Failure {
	f := &rendezvous.Failure{Rank: p.rank(), LocalRank: p.local, Node: p.round.Rank, Host: host, PID: pid, Time: at}
	switch {
	case status.Signaled():
		f.Signal = int(status.Signal())
	case status.ExitStatus() == 0:
		return nil
	default:
		f.ExitCode = status.ExitStatus()
	}
	if p.errorFile == "" {
		return f
	}
	doc, err := readErrorFile(p.errorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	f.ErrorFile, f.Error = p.errorFile, doc // one that is too long or no JSON is named all the same
	if t, ok := timeOf(doc); ok {
		f.Time = t
	}
	return f
}

// readErrorFile never waits: what a worker has put there may be a pipe.
func readErrorFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, nd.Errorf(nd.ErrCorrupt, "error file %s is no file", path)
	}
	doc, err := io.ReadAll(io.LimitReader(file, maxErrorFile))
	if err != nil {
		return nil, nd.Errorf(nd.ErrIO, "error file: %w", err)
	}
	if !json.Valid(doc) {
		return nil, nd.Errorf(nd.ErrCorrupt, "error file %s is no JSON", path)
	}
	return doc, nil
}

func parseError(doc []byte) (m errorMessage, ok bool) {
	var d errorDocument
	if json.Unmarshal(doc, &d) != nil || len(d.Message) == 0 {
		return m, false
	}
	if json.Unmarshal(d.Message, &m.Message) == nil {
		return m, true
	}
	return m, json.Unmarshal(d.Message, &m) == nil
}

func timeOf(doc []byte) (time.Time, bool) {
	m, ok := parseError(doc)
	if !ok {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(strings.Trim(string(m.ExtraInfo.Timestamp), `"`), 64)
	if err != nil || !(seconds > 0 && seconds < 1e11) {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

// copyError writes the root cause's document to the launcher's own error file, with
// its exit code, so that a launcher above this one sees it.
func copyError(to string, root *rendezvous.Failure, code int) error {
	if to == "" || root == nil || len(root.Error) == 0 {
		return nil
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(root.Error, &doc); err != nil {
		return nd.Errorf(nd.ErrCorrupt, "error file of rank %d: %w", root.Rank, err)
	}
	var message map[string]json.RawMessage
	if json.Unmarshal(doc["message"], &message) == nil && message != nil {
		message["errorCode"] = json.RawMessage(strconv.Itoa(code))
		doc["message"], _ = json.Marshal(message) // of valid parts
	}
	text, err := json.Marshal(doc)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o644)
	}
	if err != nil {
		return nd.Errorf(nd.ErrIO, "copy the error file: %w", err)
	}
	return nil
}
