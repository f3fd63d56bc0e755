package pipeline

import (
	"encoding/json"

	"github.com/headrace/headrace/cuda/kernels"
)

// deviceMethod says how a device decodes the chunks of the recipe, and the element
// size of kernels.Unshuffle. Chains that it has no kernel for are the host's.
// The chain may have a byte swap beside the stages.
func (r *recipe) deviceMethod(chain int) (method, apart uint8) {
	switch {
	case chain == 0:
		return kernels.Copy, 0
	case chain == 1 && len(r.stages) == 1:
		return stageMethod(r.stages[0].Name, r.stages[0].Config)
	}
	return kernels.Host, 0
}

func stageMethod(name string, config json.RawMessage) (method, apart uint8) {
	var settings struct {
		Cname       string `json:"cname"`
		Elementsize int    `json:"elementsize"`
	}
	if json.Unmarshal(config, &settings) != nil {
		return kernels.Host, 0
	}
	switch {
	case name == "lz4":
		return kernels.LZ4, 0
	case name == "blosc" && (settings.Cname == "lz4" || settings.Cname == "lz4hc"):
		return kernels.Blosc, 0
	case name == "shuffle" && settings.Elementsize > 0 && settings.Elementsize < 256:
		return kernels.Unshuffle, uint8(settings.Elementsize)
	}
	return kernels.Host, 0
}
