// Streams, events, copies.
#include "fake.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace fake {
namespace {

int run_until(const std::shared_ptr<Mark> &mark);

// pass is the work of a record.
int pass(Mark &mark) {
    mark.done = true;
    mark.when = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
    return OK;
}

// step does the oldest work of a stream.
int step(Stream *stream) {
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (work.after) return run_until(work.after);
    return lose(stream->context, work.run());
}

// run_until does no more than the mark needs. A wait refers to a record that was
// enqueued before it, so this ends.
int run_until(const std::shared_ptr<Mark> &mark) {
    while (!mark->done) {
        int status = step(mark->stream);
        if (status != OK) return status;
    }
    return OK;
}

template <class T>
T *live(const std::set<T *> &all, void *handle, const char *kind) {
    T *object = static_cast<T *>(handle);
    if (!all.count(object)) {
        complain(INVALID_HANDLE, "%p is no live %s", handle, kind);
        return nullptr;
    }
    if (object->context != current()) {
        complain(INVALID_HANDLE, "the %s %p is of another context", kind, handle);
        return nullptr;
    }
    return object;
}

struct Piece { Ptr dst, src; size_t n; };

// move copies at the time the work runs; the memory must still be there.
int move(Context *context, const Piece &p) {
    if (reachable(context, p.dst, p.n, true) != OK || reachable(context, p.src, p.n, false) != OK) return ILLEGAL_ADDRESS;
    memmove(reinterpret_cast<void *>(p.dst), reinterpret_cast<void *>(p.src), p.n);
    return OK;
}

// uploads reports whether a copy takes the engine that copies to a device.
bool uploads(const Piece &p) {
    auto kind = [](Ptr at) {
        auto r = state().regions.upper_bound(at);
        return r == state().regions.begin() ? REGISTERED : std::prev(r)->second.kind;
    };
    auto host = [&](Ptr at) { return kind(at) == PINNED || kind(at) == REGISTERED; };
    return host(p.src) && !host(p.dst);
}

int check(const Piece &p) {
    if (!p.n) return complain(INVALID_VALUE, "a copy of no bytes");
    int status = reachable(current(), p.dst, p.n, true);
    if (status == OK) status = reachable(current(), p.src, p.n, false);
    if (status == OK && p.dst < p.src + p.n && p.src < p.dst + p.n)
        status = complain(INVALID_VALUE, "a copy of %#lx+%zu onto itself at %#lx", p.src, p.n, p.dst);
    return status;
}

// disjoint checks that no piece of a batch writes what another one touches.
int disjoint(const std::vector<Piece> &pieces) {
    struct Range { Ptr begin, end; bool write; };
    std::vector<Range> ranges;
    for (const Piece &p : pieces) {
        ranges.push_back({p.dst, p.dst + p.n, true});
        ranges.push_back({p.src, p.src + p.n, false});
    }
    std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
    Ptr read = 0, written = 0;  // ends of what was seen so far
    for (const Range &r : ranges) {
        if (r.begin < written || (r.write && r.begin < read))
            return complain(INVALID_VALUE, "pieces of a batch overlap at %#lx", r.begin);
        (r.write ? written : read) = std::max(r.write ? written : read, r.end);
    }
    return OK;
}

// batch enqueues the pieces; they run last to first, since no order is promised.
int batch(const Ptr *dst, const Ptr *src, const size_t *n, size_t count, const size_t *first, size_t attributes, size_t *failed, void *handle) {
    if (failed) *failed = SIZE_MAX;
    if (!count || attributes != 1 || first[0] != 0) return complain(INVALID_VALUE, "a batch of %zu copies with %zu attributes", count, attributes);
    if (uintptr_t(handle) <= 1) return complain(INVALID_VALUE, "a batch of copies on the legacy default stream");
    Stream *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    std::vector<Piece> pieces;
    for (size_t i = 0; i < count; i++) {
        pieces.push_back({dst[i], src[i], n[i]});
        int status = check(pieces.back());
        if (status != OK) {
            if (failed) *failed = i;
            return status;
        }
        stream->uploads |= uploads(pieces.back());
    }
    int status = disjoint(pieces);
    if (status != OK) return status;
    Context *context = current();
    return enqueue(stream, {[context, pieces] {
        for (size_t i = pieces.size(); i-- > 0;)
            if (move(context, pieces[i]) != OK) return int(ILLEGAL_ADDRESS);
        return int(OK);
    }, nullptr});
}

}  // namespace

Stream *stream_of(void *handle) {
    if (uintptr_t(handle) <= 2) return &state().defaults[current()->device];
    return live(state().streams, handle, "stream");
}

Event *event_of(void *handle) { return live(state().events, handle, "event"); }

int enqueue(Stream *stream, Work work) {
    stream->queue.push_back(std::move(work));
    return state().lazy || stream->held ? int(OK) : finish(stream);
}

int finish(Stream *stream) {
    while (!stream->queue.empty()) {
        int status = step(stream);
        if (status != OK) return status;
    }
    return OK;
}

int finish_all(Context *context) {
    int status = finish(&state().defaults[context->device]);
    for (Stream *s : state().streams)
        if (status == OK && s->context == context) status = finish(s);
    return status;
}

#define CALL(...) \
    Call call(__VA_ARGS__); \
    if (call.status != OK) return call.status

#define STREAM(s, handle) \
    Stream *s = stream_of(handle); \
    if (!s) return INVALID_HANDLE

#define EVENT(e, handle) \
    Event *e = event_of(handle); \
    if (!e) return INVALID_HANDLE

int copy(Ptr dst, Ptr src, size_t n, void *handle) {
    CALL("cuMemcpyAsync");
    STREAM(stream, handle);
    Piece p{dst, src, n};
    int status = check(p);
    if (status != OK) return status;
    stream->uploads |= uploads(p);
    Context *context = current();
    return enqueue(stream, {[context, p] { return move(context, p); }, nullptr});
}

int copy_batch_12080(Ptr *dst, Ptr *src, size_t *n, size_t count, void *, size_t *first, size_t attributes, size_t *failed, void *stream) {
    CALL("cuMemcpyBatchAsync");
    return batch(dst, src, n, count, first, attributes, failed, stream);
}

int copy_batch_13000(const Ptr *dst, const Ptr *src, const size_t *n, size_t count, void *, size_t *first, size_t attributes, void *stream) {
    CALL("cuMemcpyBatchAsync");
    return batch(dst, src, n, count, first, attributes, nullptr, stream);
}

int set(Ptr dst, unsigned char value, size_t n, void *handle) {
    CALL("cuMemsetD8Async");
    STREAM(stream, handle);
    int status = reachable(current(), dst, n, true);
    if (status != OK) return status;
    Context *context = current();
    return enqueue(stream, {[=] {
        if (reachable(context, dst, n, true) != OK) return int(ILLEGAL_ADDRESS);
        memset(reinterpret_cast<void *>(dst), value, n);
        return int(OK);
    }, nullptr});
}

int stream_create(void **handle, unsigned flags, int priority) {
    CALL("cuStreamCreateWithPriority");
    if (flags != 1) complain(OK, "a stream that waits for the legacy default stream");
    if (priority < -5 || priority > 0) complain(OK, "stream priority %d is out of range", priority);
    Stream *s = new Stream{current(), {}, false, false};
    state().streams.insert(s);
    *handle = s;
    return OK;
}

int synchronize() {
    CALL("cuCtxSynchronize");
    return finish_all(current());
}

int stream_synchronize(void *handle) {
    CALL("cuStreamSynchronize");
    STREAM(stream, handle);
    return finish(stream);
}

// stream_destroy does the work left, since marks refer to the stream; an event of it
// keeps a mark that is done.
int stream_destroy(void *handle) {
    Call call("cuStreamDestroy");
    Stream *stream = live(state().streams, handle, "stream");
    if (!stream) return INVALID_HANDLE;
    if (call.status == OK) call.status = finish(stream);
    state().streams.erase(stream);
    if (call.status == OK) delete stream;
    return call.status;
}

int stream_wait(void *handle, void *event, unsigned flags) {
    CALL("cuStreamWaitEvent");
    STREAM(stream, handle);
    EVENT(e, event);
    if (flags) return complain(INVALID_VALUE, "cuStreamWaitEvent: flags %u", flags);
    return e->latest ? enqueue(stream, {nullptr, e->latest}) : int(OK);
}

int event_create(void **handle, unsigned flags) {
    CALL("cuEventCreate");
    if (flags & 4 && !(flags & 2)) return complain(INVALID_VALUE, "an interprocess event must not keep time");
    if (!(flags & 1)) complain(OK, "an event whose waiter spins");
    Event *e = new Event{current(), bool(flags & 4), !(flags & 2), nullptr};
    state().events.insert(e);
    *handle = e;
    return OK;
}

int event_record(void *event, void *handle) {
    CALL("cuEventRecord");
    STREAM(stream, handle);
    EVENT(e, event);
    auto mark = std::make_shared<Mark>(Mark{stream, false, 0});
    e->latest = mark;
    int status = enqueue(stream, {[mark] { return pass(*mark); }, nullptr});
    // Another process cannot make this one go on: nothing is put off for it.
    return status == OK && e->interprocess ? run_until(mark) : status;
}

// event_query does one step, so that asking long enough ends.
int event_query(void *event) {
    CALL("cuEventQuery");
    EVENT(e, event);
    if (!e->latest || e->latest->done) return OK;
    int status = step(e->latest->stream);
    return status == OK ? int(NOT_READY) : status;
}

int event_synchronize(void *event) {
    CALL("cuEventSynchronize");
    EVENT(e, event);
    auto mark = e->latest;
    if (!mark) return OK;
    state().let_go.wait(call.lock, [&] { return mark->done || !mark->stream->held; });
    return run_until(mark);
}

// event_elapsed gives milliseconds, as the real one does.
int event_elapsed(float *ms, void *begin, void *end) {
    CALL("cuEventElapsedTime");
    EVENT(b, begin);
    EVENT(e, end);
    if (!b->timed || !e->timed) return complain(INVALID_HANDLE, "cuEventElapsedTime of an event that keeps no time");
    if (!b->latest || !e->latest) return complain(INVALID_HANDLE, "cuEventElapsedTime of an event that was never recorded");
    if (!b->latest->done || !e->latest->done) return NOT_READY;
    *ms = float(e->latest->when - b->latest->when);
    return OK;
}

int event_destroy(void *event) {
    Call call("cuEventDestroy");
    Event *e = live(state().events, event, "event");
    if (!e) return INVALID_HANDLE;
    state().events.erase(e);
    delete e;
    return call.status;
}

}  // namespace fake
