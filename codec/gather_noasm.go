//go:build !amd64 || purego

package codec

func transposeVector(_ []byte, _ int, _ []byte, _, _, _, _, _, _ int) bool { return false }

func reverseVector(_, _ []byte, _ int) int { return 0 }
