//go:build !purego

package codec

import "github.com/pierrec/lz4/v4"

func decodeLZ4(dst, src []byte) (n int, ok bool) {
	if len(src) == 0 {
		return 0, false
	}
	n, err := lz4.UncompressBlock(src, dst)
	return n, err == nil
}
