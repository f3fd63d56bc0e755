//go:build !linux

package doctor

func askKernel() answer { return absent }
