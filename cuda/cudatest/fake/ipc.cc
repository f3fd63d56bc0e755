// Memory and events of another process: memory through a memfd that the importer
// opens under /proc, events as ones that have always passed.
#include "fake.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace fake {
namespace {

struct Name {
    char magic[8];
    int32_t pid, file;
    uint64_t size, offset;  // of the allocation, in its mapping
};

const char MEMORY[8] = "fakemem", EVENT[8] = "fakeevt";

const size_t PAGE = 4096;

// share moves the pages of an allocation into a memfd, at the same addresses.
int share(Region *r) {
    size_t n = r->map_size - 2 * PAGE;
    uint8_t *p = r->map + PAGE;
    int file = memfd_create("fake device memory", MFD_CLOEXEC);
    if (file < 0 || write(file, p, n) != ssize_t(n)) return OUT_OF_MEMORY;
    if (mmap(p, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) return OUT_OF_MEMORY;
    r->file = file;
    return OK;
}

Name named(const char *magic) {
    Name name{};
    memcpy(name.magic, magic, sizeof name.magic);
    name.pid = getpid();
    return name;
}

// foreign checks that a handle is of the kind and of another process.
bool foreign(const Name &name, const char *magic) {
    return !memcmp(name.magic, magic, sizeof name.magic) && name.pid != getpid();
}

}  // namespace

#define CALL(...) \
    Call call(__VA_ARGS__); \
    if (call.status != OK) return call.status

int export_memory(Handle *handle, Ptr address) {
    CALL("cuIpcGetMemHandle");
    auto found = state().regions.find(address);
    if (found == state().regions.end() || found->second.kind != DEVICE || found->second.context != current())
        return complain(INVALID_VALUE, "cuIpcGetMemHandle: %#lx is no start of device memory here", address);
    Region &r = found->second;
    int status = r.file < 0 ? share(&r) : int(OK);
    Name name = named(MEMORY);
    name.file = r.file;
    name.size = r.size;
    name.offset = address - uintptr_t(r.map + PAGE);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &name, sizeof name);
    return status;
}

int import_memory(Ptr *address, Handle handle, unsigned flags) {
    CALL("cuIpcOpenMemHandle");
    Name name;
    memcpy(&name, &handle, sizeof name);
    if (flags != 1 || !foreign(name, MEMORY)) return complain(INVALID_VALUE, "cuIpcOpenMemHandle: a handle of this process, or none");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return complain(INVALID_VALUE, "cuIpcOpenMemHandle: %s is gone", path);
    size_t n = name.offset + name.size;
    void *map = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) return OUT_OF_MEMORY;
    *address = uintptr_t(map) + name.offset;
    state().regions[*address] = Region{IMPORTED, name.size, current(), false, static_cast<uint8_t *>(map), n, -1};
    return OK;
}

int close_memory(Ptr address) {
    CALL("cuIpcCloseMemHandle");
    auto found = state().regions.find(address);
    if (found == state().regions.end() || found->second.kind != IMPORTED)
        return complain(INVALID_VALUE, "cuIpcCloseMemHandle: %#lx was not imported", address);
    unmap(found->second);
    state().regions.erase(found);
    return OK;
}

int export_event(Handle *handle, void *event) {
    CALL("cuIpcGetEventHandle");
    Event *e = event_of(event);
    if (!e || !e->interprocess) return complain(INVALID_HANDLE, "cuIpcGetEventHandle: not an interprocess event");
    Name name = named(EVENT);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &name, sizeof name);
    return OK;
}

int import_event(void **event, Handle handle) {
    CALL("cuIpcOpenEventHandle");
    Name name;
    memcpy(&name, &handle, sizeof name);
    if (!foreign(name, EVENT)) return complain(INVALID_VALUE, "cuIpcOpenEventHandle: a handle of this process, or none");
    Event *e = new Event{current(), true, false, nullptr};
    state().events.insert(e);
    *event = e;
    return OK;
}

}  // namespace fake
