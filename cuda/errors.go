package cuda

import (
	"fmt"

	"github.com/headrace/headrace/nd"
)

// DriverError is a status of the driver.
type DriverError struct {
	Code int    // the value of CUresult
	Name string // CUDA_ERROR_...
}

func (e *DriverError) Error() string { return fmt.Sprintf("%s (%d)", e.Name, e.Code) }

// fatal says whether a context is lost after this status of the driver: each is
// documented as "the process must be terminated and relaunched", or tells that
// the context or the GPU is gone.
func fatal(code int) bool {
	switch code {
	case 4, // deinitialized
		46,  // device unavailable
		214, // ECC uncorrectable
		220, // NVLink uncorrectable
		226, // contained error
		700, // illegal address
		702, // launch timeout
		709, // context is destroyed
		710, // device-side assert
		714, // hardware stack error
		715, // illegal instruction
		716, // misaligned address
		717, // invalid address space
		718, // invalid program counter
		719, // launch failed
		721, // tensor memory leak
		911: // external device
		return true
	}
	return false
}

// status makes a driver status an error value, with its name.
func (d *Driver) status(code int) *DriverError {
	w := words{uint64(uint32(code))}
	name := make([]byte, 128)
	if d.lib.call(0, opErrorName, &w, name) != codeSuccess {
		return &DriverError{Code: code, Name: "unknown error"}
	}
	return &DriverError{Code: code, Name: text(name)}
}

// fail is the error of a status; what says which call met it.
func (d *Driver) fail(code int, what string) error {
	if code == codeOutOfMemory {
		return nd.Errorf(nd.ErrBudget, "%s: %w", what, d.status(code))
	}
	return nd.Errorf(nd.ErrDevice, "%s: %w", what, d.status(code))
}

// fail is Driver.fail that also notes the loss of the context.
func (d *Device) fail(code int, what string) error {
	if fatal(code) {
		d.broken.Store(true)
	}
	return d.driver.fail(code, fmt.Sprintf("GPU %d: %s", d.info.Ordinal, what))
}

// text is the string before the first NUL.
func text(bytes []byte) string {
	for i, c := range bytes {
		if c == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}
