// Package kernels holds the CUDA kernels of headrace, compiled, and the Go side
// of their binary interface.
package kernels
