// The switches and counters of a test: one exported function, see cudatest.Fake.
#include "fake.h"

#include <cstring>

namespace fake {
namespace {

size_t regions(Kind kind) {
    size_t n = 0;
    for (auto &r : state().regions) n += r.second.kind == kind;
    return n;
}

int64_t live(const std::string &what) {
    State &s = state();
    if (what == "device") return regions(DEVICE);
    if (what == "pinned") return regions(PINNED);
    if (what == "registered") return regions(REGISTERED);
    if (what == "imported") return regions(IMPORTED);
    if (what == "streams") return s.streams.size();
    if (what == "events") return s.events.size();
    if (what == "modules") return s.modules.size();
    int64_t n = 0;
    if (what == "uploading")
        for (Stream *stream : s.streams) n += stream->uploads;
    if (what == "bytes")
        for (Context &c : s.contexts) n += used(&c);
    if (what == "contexts")
        for (Context &c : s.contexts) n += c.holds;
    return n;
}

int64_t configure(const std::string &what, int64_t a) {
    State &s = state();
    if (what == "version") s.version = int(a);
    else if (what == "devices") s.devices = int(a);
    else if (what == "memory") s.memory = a;
    else if (what == "read-only") s.read_only_register = a;
    else if (what == "lazy") s.lazy = a;
    else return -1;
    return 0;
}

}  // namespace
}  // namespace fake

// what: a switch, "fail" (a = which call from now on, 0 all; b = status; b 0 ends
// it), "hide", "instance" (device a, of profile name), "hold" (stream a; b 0 lets it go), "lose" (device a, status b), "calls", "live", "push" and "depth" of
// the calling thread, "reachable" (bytes b at address a; name "write"?) for its
// context, which other fakes ask. -1 for an unknown one.
extern "C" __attribute__((visibility("default"))) int64_t hr_fake(const char *what, const char *name, int64_t a, int64_t b) {
    using namespace fake;
    std::lock_guard<std::mutex> lock(state().mu);
    std::string w = what;
    if (w == "fail") {
        if (b) state().faults[name] = Fault{a, int(b)};
        else state().faults.erase(name);
    } else if (w == "hide") {
        state().hidden.insert(name);
    } else if (w == "instance") {
        state().profiles.at(a) = name;
    } else if (w == "hold") {
        if (!state().streams.count(reinterpret_cast<Stream *>(a))) return -1;
        reinterpret_cast<Stream *>(a)->held = b;
        state().let_go.notify_all();
    } else if (w == "lose") {
        state().contexts.at(a).lost = int(b);
    } else if (w == "calls") {
        return state().calls[name];
    } else if (w == "live") {
        return live(name);
    } else if (w == "push") {
        stack().push_back(&state().contexts.at(a));
    } else if (w == "depth") {
        return stack().size();
    } else if (w == "reachable") {
        return reachable(current(), uint64_t(a), uint64_t(b), !strcmp(name, "write")) == OK;
    } else {
        return configure(w, a);
    }
    return 0;
}

// hr_fake_complaint copies complaint i and says how many there are.
extern "C" __attribute__((visibility("default"))) int64_t hr_fake_complaint(int64_t i, char *text, size_t size) {
    using namespace fake;
    std::lock_guard<std::mutex> lock(state().mu);
    auto &all = state().complaints;
    if (i >= 0 && size_t(i) < all.size()) {
        strncpy(text, all[i].c_str(), size - 1);
        text[size - 1] = 0;
    }
    return all.size();
}
