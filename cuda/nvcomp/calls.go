package nvcomp

// loadStatus is how loading went, as in nvcomp.h.
type loadStatus int

const (
	loadOK loadStatus = iota
	loadNoLibrary
	loadNoSymbol
	loadTooOld
)

// call is one call of the C side; nvcomp.h says which words each takes and gives.
type call int

const (
	callAlignments call = iota
	callTemp
	callDecompress
)

// words are the arguments and results of one call.
type words [10]uint64
