package cuda

import (
	"bytes"
	"fmt"

	"github.com/headrace/headrace/nd"
)

// jitLog is the room for what the PTX compiler says about a failure.
const jitLog = 8 << 10

// Module is a loaded image of kernels.
type Module struct{ *object }

// LoadModule loads the first image that the driver can use: cubins, fatbins or
// PTX text, in order of preference. PTX is compiled at the first load on a
// machine and cached by the driver. If none loads, the error has the reason for
// each, with the compiler's log.
func (d *Device) LoadModule(images [][]byte) (*Module, error) {
	if len(images) == 0 {
		return nil, nd.Errorf(nd.ErrBug, "a module without an image")
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.life.leave()
	var refused []error
	for i, image := range images {
		handle, code, log := d.loadImage(image)
		if code == codeSuccess {
			return &Module{d.own("module", handle, opModuleUnload)}, nil
		}
		err := d.fail(code, fmt.Sprintf("loading kernel image %d of %d%s", i+1, len(images), log))
		if !unusable(code) {
			return nil, err
		}
		refused = append(refused, err)
	}
	if len(refused) == 1 {
		return nil, refused[0]
	}
	return nil, nd.Errorf(nd.ErrDevice, "no kernel image fits the driver: %w", oneLine(refused))
}

// oneLine is errors.Join with the texts on one line.
func oneLine(errs []error) error {
	err := errs[0]
	for _, next := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, next)
	}
	return err
}

// loadImage gives the module or the status and the compiler's log.
func (d *Device) loadImage(image []byte) (handle uint64, code int, log string) {
	room := make([]byte, len(image)+1+jitLog) // PTX must end in NUL; anything may
	copy(room, image)
	w := words{uint64(len(image)), jitLog}
	code = d.driver.lib.call(d.context, opModuleLoad, &w, room)
	if said := bytes.TrimSpace([]byte(text(room[len(image)+1:]))); len(said) > 0 {
		log = fmt.Sprintf(" (%s)", bytes.ReplaceAll(said, []byte("\n"), []byte("; ")))
	}
	return w[0], code, log
}

// unusable says whether a status of loading means that another image may do.
func unusable(code int) bool {
	switch code {
	case 200, // invalid image
		209, // no binary for GPU
		218, // invalid PTX
		221, // JIT compiler not found
		222, // unsupported PTX version
		223, // JIT compilation disabled
		300: // invalid source
		return true
	}
	return false
}

// Close unloads the module; none of its functions may be queued or running.
func (m *Module) Close() error { return m.close() }

// Function is a kernel of a module, a small value. It is valid until the module
// is closed.
type Function struct {
	module *Module
	handle uint64
	name   string
}

// Attributes are what the compiler and the driver decided for a kernel.
type Attributes struct {
	Registers    int // of each thread
	MaxThreads   int // of a block
	SharedMemory int // static, bytes of a block
	LocalMemory  int // bytes of each thread, spills among them
}

// Function looks a kernel up by its name.
func (m *Module) Function(name string) (Function, error) {
	w := words{m.handle}
	if err := m.call(opFunction, &w, append([]byte(name), 0), "looking for kernel "+name); err != nil {
		return Function{}, err
	}
	return Function{m, w[0], name}, nil
}

// Name is the kernel's name in the module.
func (f Function) Name() string { return f.name }

// Attributes asks the driver; it also makes a lazily loading driver load the kernel.
func (f Function) Attributes() (Attributes, error) {
	w := words{f.handle}
	err := f.module.call(opFunctionInfo, &w, nil, "asking about kernel "+f.name)
	if err != nil {
		return Attributes{}, err
	}
	return Attributes{int(w[0]), int(w[1]), int(w[2]), int(w[3])}, nil
}

// BlocksPerSM says how many blocks of so many threads and bytes of dynamic shared
// memory run on one multiprocessor at once.
func (f Function) BlocksPerSM(block, shared int) (int, error) {
	w := words{f.handle, uint64(block), uint64(shared)}
	err := f.module.call(opBlocksPerSM, &w, nil, "asking for the occupancy of kernel "+f.name)
	return int(w[0]), err
}

// AllowShared lets launches ask for up to n bytes of dynamic shared memory; it is
// needed above 48 KiB.
func (f Function) AllowShared(n int) error {
	w := words{f.handle, uint64(n)}
	return f.module.call(opFunctionShared, &w, nil, "giving shared memory to kernel "+f.name)
}
