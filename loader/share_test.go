package loader

import (
	"testing"

	"github.com/headrace/headrace/pipeline"
)

// What a rank takes of its node's memory by default is divided by the ranks there.
// The decoded cache of a GPU lies in the GPU's memory and is none of the node's.
func TestShareOfTheNode(t *testing.T) {
	host := pipeline.Config{Device: "cpu"}
	shareNode(&host, 1)
	if host.Workers == 0 {
		t.Skip("this machine has no /proc/meminfo: there is no share of it")
	}
	if host.DecodedBytes <= 0 || host.DecodedBytes > pipelineDecoded || host.MappedBytes != 0 {
		t.Errorf("on the host: %+v", host)
	}
	one, many := pipeline.Config{Device: "cuda:3"}, pipeline.Config{Device: "cuda:3"}
	shareNode(&one, 1)
	shareNode(&many, 1024)
	if one.DecodedBytes != 0 || one.MappedBytes <= 0 || one.MappedBytes > mappedMost || one.Workers == 0 {
		t.Errorf("on a GPU: %+v", one)
	}
	if many.MappedBytes >= one.MappedBytes {
		t.Errorf("1 rank maps %d bytes, each of 1024 ranks %d", one.MappedBytes, many.MappedBytes)
	}
	own := pipeline.Config{Device: "cuda:3", MappedBytes: 5, DecodedBytes: 6}
	shareNode(&own, 1)
	if own.MappedBytes != 5 || own.DecodedBytes != 6 {
		t.Errorf("what was given is changed: %+v", own)
	}
}
