// A libcuda for tests: the driver functions that headrace calls, on host memory.
// It never leaves a test: nothing here is compiled into a product.
//
// It is strict where the real driver is undefined or merely lenient: ranges of
// copies must lie in live device, pinned or registered memory, handles must be
// live and of the current context, pieces of a batch must not overlap, a kernel's
// parameters must have the size that its PTX declares. Memory begins as 0xCD, is
// fenced by inaccessible pages, and is inaccessible once freed. Each refusal that
// no fault switch asked for leaves a complaint that the test can read.
//
// Work on a stream runs when it is enqueued, or, in lazy mode, as late as the rules
// allow: when somebody waits for it. Lazy mode is the one that finds a missing
// wait: what was not waited for has not happened yet.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

enum Status {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY = 209, UNSUPPORTED_PTX = 222,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

struct Stream;

// One record of an event; waits refer to it. when is the time at which it was done.
struct Mark { Stream *stream; bool done; double when; };

struct Work {
    std::function<int()> run;     // empty for a wait
    std::shared_ptr<Mark> after;  // a wait: what must be done first
};

struct Context { int device; int holds; int lost; };

struct Stream {
    Context *context;
    std::deque<Work> queue;
    bool held = false;  // it is slow: who waits for one of its events waits until it is let go
    bool uploads = false;  // something was to be copied to the device on it
};

struct Event { Context *context; bool interprocess, timed; std::shared_ptr<Mark> latest; };

struct Module;
struct Function { Module *module; std::string name; size_t params; int shared, threads; };
struct Module { Context *context; std::map<std::string, std::unique_ptr<Function>> functions; };

enum Kind { DEVICE, PINNED, REGISTERED, IMPORTED };

struct Region {
    Kind kind;
    size_t size;
    Context *context;
    bool read_only;
    uint8_t *map;     // DEVICE, PINNED, IMPORTED: the mapping that holds it
    size_t map_size;
    int file;         // memfd of exported memory, or -1
};

struct Fault { int64_t left; int code; };  // left 0 = every call

struct State {
    std::mutex mu;
    int version = 13000;
    int devices = 2;
    size_t memory = size_t(16) << 30;  // of each device
    bool lazy = false, read_only_register = true;
    std::vector<Context> contexts = std::vector<Context>(16);
    std::vector<std::string> profiles = std::vector<std::string>(16);  // of MIG instances
    std::map<std::string, Fault> faults;
    std::map<std::string, int64_t> calls;
    std::set<std::string> hidden;  // entries that cuGetProcAddress denies
    std::map<uintptr_t, Region> regions;
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Module *> modules;
    std::vector<Stream> defaults = std::vector<Stream>(16);  // handles 0, 1, 2
    std::condition_variable let_go;  // with mu
    std::vector<std::string> complaints;
};

State &state();
std::vector<Context *> &stack();  // of the calling thread
Context *current();

// Call is one call of an entry: it locks, counts, and meets the faults and the
// state of the context. When status is not OK, the entry returns it.
struct Call {
    std::unique_lock<std::mutex> lock;
    int status;
    explicit Call(const char *name, bool in_context = true);
};

// complain notes why something was refused and returns the status.
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int lose(Context *context, int status);  // the context is lost from now on
bool fatal(int status);

// reachable checks that [address, address+n) lies in memory that the GPU of the
// context can use.
int reachable(Context *context, uint64_t address, uint64_t n, bool write);
size_t used(const Context *context);

Stream *stream_of(void *handle);  // NULL with a complaint if it is none of the context's
Event *event_of(void *handle);
int enqueue(Stream *stream, Work work);
int finish(Stream *stream);
int finish_all(Context *context);

void *lookup(const char *name, int version);

// The entries, by file; table.cc gives them their names.
using Ptr = uint64_t;
struct Uuid { uint8_t bytes[16]; };
struct Handle { char bytes[64]; };

int init(unsigned);
int error_name(int code, const char **name);
int device_count(int *);
int device_get(int *, int);
int device_name(char *, int, int);
int device_uuid(Uuid *, int);
int device_bus(char *, int, int);
int device_memory(size_t *, int);
int device_attribute(int *, int, int);
int retain(void **, int);
int release(int);
int push(void *);
int pop(void **);
int priority_range(int *, int *);
int synchronize();

int mem_info(size_t *, size_t *);
int mem_alloc(Ptr *, size_t);
int mem_free(Ptr);
int host_alloc(void **, size_t, unsigned);
int host_free(void *);
int host_register(void *, size_t, unsigned);
int host_unregister(void *);
uint8_t *map_fenced(Region *region, size_t n);
void unmap(const Region &region);

int copy(Ptr, Ptr, size_t, void *);
int copy_batch_12080(Ptr *, Ptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, void *);
int copy_batch_13000(const Ptr *, const Ptr *, const size_t *, size_t, void *, size_t *, size_t, void *);
int set(Ptr, unsigned char, size_t, void *);

int stream_create(void **, unsigned, int);
int stream_synchronize(void *);
int stream_destroy(void *);
int stream_wait(void *, void *, unsigned);
int event_create(void **, unsigned);
int event_record(void *, void *);
int event_query(void *);
int event_synchronize(void *);
int event_elapsed(float *, void *, void *);
int event_destroy(void *);

int module_load(void **, const void *, unsigned, int *, void **);
int module_unload(void *);
int module_function(void **, void *, const char *);
int function_get(int *, int, void *);
int function_set(void *, int, int);
int occupancy(int *, void *, int, size_t);
int launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

int export_memory(Handle *, Ptr);
int import_memory(Ptr *, Handle, unsigned);
int close_memory(Ptr);
int export_event(Handle *, void *);
int import_event(void **, Handle);

}  // namespace fake
