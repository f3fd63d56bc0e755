package nvcomp

import (
	"strconv"

	"github.com/headrace/headrace/nd"
)

// StatusText explains a status of nvCOMP, of a call or of a chunk; 0 is success.
func StatusText(status int32) string {
	text := "unknown status"
	switch status {
	case 0:
		text = "success"
	case 10:
		text = "invalid value"
	case 11:
		text = "not supported"
	case 12:
		text = "cannot decompress"
	case 13:
		text = "bad checksum"
	case 14:
		text = "cannot verify checksums"
	case 15:
		text = "output buffer too small"
	case 16:
		text = "wrong header length"
	case 17:
		text = "alignment"
	case 18:
		text = "chunk too large"
	case 19:
		text = "cannot compress"
	case 20:
		text = "wrong input length"
	case 21:
		text = "batch too large"
	case 1000:
		text = "CUDA error"
	case 10000:
		text = "internal error"
	}
	return text + " (" + strconv.Itoa(int(status)) + ")"
}

// kind sorts the status of a call: the arguments are ours, the limits are the
// library's, and all else is the device's.
func kind(status int32) error {
	switch status {
	case 10, 17:
		return nd.ErrBug
	case 11, 18, 21:
		return nd.ErrUnsupported
	}
	return nd.ErrDevice
}
