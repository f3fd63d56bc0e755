//go:build !amd64 || purego

package codec

func unshuffleVector(_, _ []byte, _ int) bool { return false }

func bitUnshuffleVector(_, _ []byte, _, _ int) bool { return false }
