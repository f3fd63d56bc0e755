package loader

import (
	"os"
	"runtime"
	"strings"

	"github.com/headrace/headrace/pipeline"
	"github.com/headrace/headrace/rank"
)

const (
	// pipelineDecoded is the pipeline's default of DecodedBytes.
	pipelineDecoded = 256 << 20
	// decodedShare is the part of a rank's memory that decoded chunks may fill by
	// default: the trainer, the slots and the page cache have the rest.
	decodedShare = 8
	// mappedShare is the part that mapped page cache may take by default, mappedMost
	// the most of it: the page cache itself is not the process's, but pages that are
	// registered cannot be taken from it.
	mappedShare = 4
	mappedMost  = 16 << 30
)

// shareNode fills in defaults that are this rank's share of its node. Where the
// node cannot be measured the pipeline's own defaults hold.
func shareNode(c *pipeline.Config, localWorld int) {
	node, err := rank.ReadNode(os.ReadFile, runtime.NumCPU())
	if err != nil {
		return
	}
	share := node.Share(localWorld)
	if c.Workers == 0 {
		c.Workers = min(share.Cores, runtime.GOMAXPROCS(0))
	}
	if strings.HasPrefix(string(c.Device), "cuda:") {
		// Decoded chunks lie in the GPU's memory, which ranks do not share.
		if c.MappedBytes == 0 {
			c.MappedBytes = max(1, min(mappedMost, share.Memory/mappedShare))
		}
		return
	}
	if c.HostBytes == 0 && c.DecodedBytes == 0 {
		c.DecodedBytes = max(1, min(pipelineDecoded, share.Memory/decodedShare))
	}
}
