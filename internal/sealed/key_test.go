package sealed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/nd"
)

// A key is what an editor or echo has left in the file, without the end of its line; one that
// is too short, or not there, is an error that says where it was named.
func TestReadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for text, want := range map[string]string{
		"0123456789abcdef\n": "0123456789abcdef", "0123456789abcdef\r\n": "0123456789abcdef", " 0123456789abcde": " 0123456789abcde",
		"0123456789abcde\n": "", "": "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := ReadKey("--key-file", path)
		if string(key) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, key, err)
		}
		if err != nil && (!errors.Is(err, nd.ErrConfig) || !strings.Contains(err.Error(), "--key-file: the key in "+path)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadKey("--key-file", path+"x"); !errors.Is(err, nd.ErrIO) || !strings.Contains(err.Error(), "--key-file") {
		t.Error(err)
	}
}
