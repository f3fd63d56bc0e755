//go:build purego

package codec

func decodeLZ4(dst, src []byte) (n int, ok bool) { return decodeLZ4Twin(dst, src) }
