// The C side of the package: the entries of nvCOMP that are called, and the one
// call through which Go reaches them. Declared from the public documentation of
// the C interface; nothing of nvCOMP is needed to build it.
#ifndef HEADRACE_CUDA_NVCOMP_H
#define HEADRACE_CUDA_NVCOMP_H

#include <stddef.h>
#include <stdint.h>

typedef struct hr_nvcomp hr_nvcomp; // a loaded library

// Statuses of hr_nvcomp_load. The order is that of binding.go's constants.
enum {
	HR_NVCOMP_OK,
	HR_NVCOMP_NO_LIBRARY, // dlopen failed; text: why
	HR_NVCOMP_NO_SYMBOL,  // text: which
	HR_NVCOMP_TOO_OLD,    // it has the entries of 4.x or earlier
};

// One call: words in, words out, in the same array. w[0] is the format and then
// nvCOMP's status. The order is that of binding.go's constants.
enum {
	HR_NVCOMP_ALIGNMENTS, // format -> status input output temp
	HR_NVCOMP_TEMP,       // format chunks maxChunk total -> status bytes
	HR_NVCOMP_DECOMPRESS, // format, then the members of Batch in their order -> status
};

// Where a call runs: addresses of cuCtxPushCurrent and cuCtxPopCurrent, the
// context and the stream.
typedef struct { uint64_t push, pop, context, stream; } hr_nvcomp_place;

// hr_nvcomp_load loads the library at path. version is 1000 major + 100 minor +
// patch, 0 if it does not tell. The result is never unloaded.
int hr_nvcomp_load(const char *path, hr_nvcomp **out, int *version, char *text, size_t size);

// hr_nvcomp_call makes one call with the context current, and puts back what was
// current before. It returns the driver's status of that, 0 if all is well.
int hr_nvcomp_call(const hr_nvcomp *lib, const hr_nvcomp_place *place, int call, uint64_t *w);

#endif
