package codec

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

var python = flag.String("python", "", "a Python with numcodecs, for TestOracleReadsOurs")

// TestOracleReadsOurs has numcodecs read what our encoders write.
func TestOracleReadsOurs(t *testing.T) {
	if *python == "" {
		t.Skip("needs -python=PATH of a Python with numcodecs 0.16")
	}
	var cases bytes.Buffer
	out := json.NewEncoder(&cases)
	s := NewScratch()
	defer s.Close()
	for _, c := range oracleCases(t) {
		codec := stage(t, c.Codec, string(c.Config))
		encoded, err := codec.Encode(nil, c.Want)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		c.Encoded = encoded
		if lossy(c.Codec) {
			if c.Want, err = codec.Decode(make([]byte, len(c.Want)), encoded, s); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
		if err := out.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.Command(*python, "testdata/check.py")
	check.Stdin = &cases
	report, err := check.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	t.Logf("%s", lastLine(string(report)))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// oracleCases are the configurations of the golden cases over more data, and
// blosc with everything that shapes a frame.
func oracleCases(t *testing.T) []goldenCase {
	var cases []goldenCase
	for _, file := range []string{"deflate", "lz4", "zstd", "filters"} {
		for _, g := range goldenCases(t, file) {
			if g.Error == "" && len(g.want(t)) > 0 { // numcodecs fails on no bytes
				g.Data, g.Want = "", g.want(t)
				cases = append(cases, g)
			}
		}
	}
	for _, level := range []int{-5, 0, 1, 3, 12, 22} {
		for _, checksum := range []bool{false, true} {
			config := fmt.Sprintf(`{"level":%d,"checksum":%v}`, level, checksum)
			cases = append(cases, goldenCase{Name: "zstd " + config, Codec: "zstd", Config: json.RawMessage(config), Want: noisyU16(150_000)})
		}
	}
	for _, cname := range []string{"blosclz", "lz4", "lz4hc", "zlib", "zstd"} {
		for _, shuffle := range []int{0, 1, 2} {
			for _, typesize := range []int{1, 2, 3, 4, 8, 16, 17, 255, 300} {
				for _, clevel := range []int{0, 1, 5, 9} {
					for _, data := range []string{"ramp 127 2", "ramp 128 2", "ramp 4003 4", "noise 5000 1", "mixed 20000 4", "steps 300000 1"} {
						config := fmt.Sprintf(`{"cname":%q,"shuffle":%d,"typesize":%d,"clevel":%d,"blocksize":%d}`, cname, shuffle, typesize, clevel, clevel/5*1000)
						cases = append(cases, goldenCase{
							Name: "blosc " + config + ": " + data, Codec: "blosc", Config: json.RawMessage(config), Want: dataSet(t, data),
						})
					}
				}
			}
		}
	}
	return cases
}
