package dataset

import (
	"github.com/klauspost/compress/zstd"

	"github.com/headrace/headrace/codec"
	"github.com/headrace/headrace/nd"
)

// zstdEncoder is the zstd encoder of the library asked for; nil stands for the
// codec's own, which is the build's.
func zstdEncoder(library string, config map[string]any) (encode, error) {
	switch {
	case library == "" || library == codec.ZstdLibrary && library != "klauspost":
		return nil, nil
	case library == "klauspost":
		return klauspost(config)
	case library == "libzstd":
		return nil, nd.Errorf(nd.ErrUnsupported, "encoder libzstd: this headrace was built without cgo; build it with cgo or ask for klauspost")
	}
	return nil, nd.Errorf(nd.ErrConfig, "encoder %q: libzstd or klauspost", library)
}

// klauspost keeps one encoder, so that a chunk does not pay for a new one.
func klauspost(config map[string]any) (encode, error) {
	level, checksum := 3, false
	switch l := config["level"].(type) {
	case int:
		level = l
	case float64:
		level = int(l)
	}
	checksum, _ = config["checksum"].(bool)
	encoder, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithEncoderCRC(checksum),
		zstd.WithZeroFrames(true),
	)
	if err != nil {
		return nil, nd.Errorf(nd.ErrConfig, "encoder klauspost: %w", err)
	}
	return func(dst, src []byte) ([]byte, error) { return encoder.EncodeAll(src, dst), nil }, nil
}
