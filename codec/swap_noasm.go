//go:build !amd64 || purego

package codec

func swap2(dst, src []byte) { swap2Generic(dst, src) }
func swap4(dst, src []byte) { swap4Generic(dst, src) }
func swap8(dst, src []byte) { swap8Generic(dst, src) }
