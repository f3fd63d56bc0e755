//go:build cgo && linux

#include "nvcomp.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// Options of every format and direction are structs of 64 bytes passed by value;
// all zero are the defaults.
typedef struct { uint64_t words[8]; } options;

typedef struct { size_t input, output, temp; } alignments;

typedef struct { uint32_t version, cudart; } properties;

_Static_assert(sizeof(options) == 64, "size of the options");
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "addresses travel as 64-bit words");

typedef int (*alignments_entry)(options, alignments *);
// Chunks, bytes of the largest decoded, options, result, bytes of all decoded; 6.0
// appends the stream, which names the device.
typedef int (*temp_5)(size_t, size_t, options, size_t *, size_t);
typedef int (*temp_6)(size_t, size_t, options, size_t *, size_t, void *);
typedef int (*decompress_entry)(
	const void *const *sources, const size_t *source_bytes, const size_t *destination_bytes, size_t *actual_bytes,
	size_t n, void *temp, size_t temp_bytes, void *const *destinations, options, int *statuses, void *stream);

typedef struct {
	alignments_entry alignments;
	temp_5 temp5; // one of the two is set
	temp_6 temp6;
	decompress_entry decompress;
} format;

// By Format.
static const char *const names[] = {"Zstd"};
enum { FORMATS = sizeof names / sizeof *names };

struct hr_nvcomp { format formats[FORMATS]; };

static void *find(void *library, const char *format, const char *entry, char *text, size_t size)
{
	snprintf(text, size, "nvcompBatched%sDecompress%s", format, entry);
	return dlsym(library, text);
}

// bind finds the entries of a format: what there is decides, not the version. The
// entries of 4.x have partly the same names and other parameters, but the query
// that only it has tells it apart.
static int bind(void *library, const char *name, format *f, char *text, size_t size)
{
	if (find(library, name, "GetTempSizeEx", text, size))
		return HR_NVCOMP_TOO_OLD;
	f->temp5 = (temp_5)find(library, name, "GetTempSizeAsync", text, size);
	if (!f->temp5 && !(f->temp6 = (temp_6)find(library, name, "GetTempSize", text, size)))
		return HR_NVCOMP_NO_SYMBOL;
	if (!(f->alignments = (alignments_entry)find(library, name, "GetRequiredAlignments", text, size)))
		return HR_NVCOMP_NO_SYMBOL;
	if (!(f->decompress = (decompress_entry)find(library, name, "Async", text, size)))
		return HR_NVCOMP_NO_SYMBOL;
	return HR_NVCOMP_OK;
}

int hr_nvcomp_load(const char *path, hr_nvcomp **out, int *version, char *text, size_t size)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(text, size, "%s", dlerror());
		return HR_NVCOMP_NO_LIBRARY;
	}
	properties about = {0};
	int (*get)(properties *) = (int (*)(properties *))dlsym(library, "nvcompGetProperties");
	if (get && get(&about) == 0)
		*version = (int)about.version;
	hr_nvcomp *lib = calloc(1, sizeof *lib);
	if (!lib)
		return HR_NVCOMP_NO_LIBRARY;
	for (int i = 0; i < FORMATS; i++) {
		int rc = bind(library, names[i], &lib->formats[i], text, size);
		if (rc != HR_NVCOMP_OK) {
			free(lib);
			return rc;
		}
	}
	*out = lib;
	return HR_NVCOMP_OK;
}

static void *pointer(uint64_t word) { return (void *)(uintptr_t)word; }

static int query_alignments(const format *f, uint64_t *w)
{
	alignments a = {0};
	int status = f->alignments((options){0}, &a);
	w[1] = a.input;
	w[2] = a.output;
	w[3] = a.temp;
	return status;
}

static int query_temp(const format *f, void *stream, uint64_t *w)
{
	size_t bytes = 0;
	int status;
	if (f->temp5)
		status = f->temp5(w[1], w[2], (options){0}, &bytes, w[3]);
	else
		status = f->temp6(w[1], w[2], (options){0}, &bytes, w[3], stream);
	w[1] = bytes;
	return status;
}

// decompress takes the words in the order of Batch.
static int decompress(const format *f, void *stream, const uint64_t *w)
{
	return f->decompress(
		pointer(w[1]), pointer(w[2]), pointer(w[4]), pointer(w[5]), w[7], pointer(w[8]), w[9], pointer(w[3]),
		(options){0}, pointer(w[6]), stream);
}

static int make(const hr_nvcomp *lib, int call, void *stream, uint64_t *w)
{
	const format *f = &lib->formats[w[0]];
	switch (call) {
	case HR_NVCOMP_ALIGNMENTS:
		return query_alignments(f, w);
	case HR_NVCOMP_TEMP:
		return query_temp(f, stream, w);
	default:
		return decompress(f, stream, w);
	}
}

int hr_nvcomp_call(const hr_nvcomp *lib, const hr_nvcomp_place *place, int call, uint64_t *w)
{
	int (*push)(void *) = (int (*)(void *))pointer(place->push);
	int (*pop)(void **) = (int (*)(void **))pointer(place->pop);
	int rc = push(pointer(place->context));
	if (rc != 0)
		return rc;
	w[0] = (uint64_t)(int64_t)make(lib, call, pointer(place->stream), w);
	void *ours;
	return pop(&ours);
}
