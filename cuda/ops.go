package cuda

// op is one operation of the C side; driver.h says which words each takes and
// gives, and has the same list in the same order.
type op int32

const (
	opErrorName op = iota
	opDeviceCount
	opDescribe
	opRetain
	opRelease
	opMemInfo
	opAlloc
	opFree
	opAllocHost
	opFreeHost
	opRegister
	opUnregister
	opStreamNew
	opStreamDrain
	opStreamDestroy
	opEventNew
	opEventWait
	opEventQuery
	opEventElapsed
	opEventDestroy
	opModuleLoad
	opModuleUnload
	opFunction
	opFunctionInfo
	opFunctionShared
	opBlocksPerSM
	opExportMemory
	opExportEvent
	opImportMemory
	opCloseMemory
	opImportEvent
	opSynchronize
	opCount
)

// The commands of a list, as in driver.h.
const (
	cmdCopy = iota + 1
	cmdCopyBatch
	cmdSet
	cmdLaunch
	cmdRecord
	cmdAwait
)

// words are the arguments and results of one operation.
type words [10]uint64

// Statuses of the C side, and those of the driver that are told apart here.
const (
	codeNoLibrary = -1
	codeNoEntry   = -2
	codeTooOld    = -3

	codeSuccess     = 0
	codeOutOfMemory = 2
	codeNotReady    = 600
)
