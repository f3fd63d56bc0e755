// The threads of a block as fibers of one host thread. A fiber runs until it has
// to wait for others, then the next one does. Which thread comes first is nothing
// that a kernel may rely on: every second block runs from its last thread down.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace hr {

// A Stack is where a fiber, or the scheduler, goes on.
struct Stack;
static void leap(Stack &from, Stack &to);
static void enter(Stack &s, char *memory, size_t bytes, void (*body)());

#if defined(__x86_64__)
// Without the system calls of swapcontext: shuffles switch all the time.
struct Stack {
	void *top;
};
extern "C" void hr_leap(void **from, void *to);
asm(R"(
.text
.type hr_leap, @function
hr_leap:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
)");
static void leap(Stack &from, Stack &to) { hr_leap(&from.top, to.top); }
static void enter(Stack &s, char *memory, size_t bytes, void (*body)()) {
	void **top = (void **)(((uintptr_t)memory + bytes) & ~(uintptr_t)15);
	top[-2] = (void *)body; // hr_leap returns to it as if it had been called
	top[-1] = nullptr;
	for (int i = 3; i <= 8; i++) top[-i] = nullptr;
	s.top = top - 8;
}
#else
struct Stack {
	ucontext_t context;
};
static void leap(Stack &from, Stack &to) { swapcontext(&from.context, &to.context); }
static void enter(Stack &s, char *memory, size_t bytes, void (*body)()) {
	getcontext(&s.context);
	s.context.uc_stack.ss_sp = memory;
	s.context.uc_stack.ss_size = bytes;
	makecontext(&s.context, body, 0);
}
#endif

// Barrier opens when all its members wait at it.
struct Barrier {
	u32 members, waiting, opened;
};

struct Warp {
	Barrier barrier;
	u32 posted[2][LANES]; // what lanes give to a shuffle; shuffles alternate
};

struct Fiber {
	Stack stack;
	std::vector<char> memory;
	bool done;
	Barrier *at; // waits here while it has opened no more often than this
	u32 opened;
	u32 shuffles;
};

enum { MOST_THREADS = 256, STACK_BYTES = 128 << 10 };

struct Crew {
	std::vector<Fiber> fibers = std::vector<Fiber>(MOST_THREADS);
	Warp warps[MOST_THREADS / LANES];
	Barrier barrier;
	Stack home;
	void (*call)(const void *);
	const void *argument;
};
HR_LAUNCHER Crew crew;

// await is true for the last one, who opens it.
static bool await(Barrier &b) {
	if (++b.waiting == b.members) {
		b.waiting = 0;
		b.opened++;
		return true;
	}
	Fiber &f = crew.fibers[self.thread];
	f.at = &b;
	f.opened = b.opened;
	leap(f.stack, crew.home);
	f.at = nullptr;
	return false;
}

#if defined(HR_RACES)
static void turnTo(u32 thread) { hr_races_turn(thread); }
static void ordered(u32 warp) { hr_races_barrier(warp); }
static void another() { hr_races_block(); }
enum : u32 { NO_THREAD = HR_RACES_NONE, ALL_WARPS = HR_RACES_NONE };
#else
enum : u32 { NO_THREAD, ALL_WARPS };
static void turnTo(u32) {}
static void ordered(u32) {}
static void another() {}
#endif

void syncBlock() {
	if (await(crew.barrier)) ordered(ALL_WARPS);
}
void syncWarp() {
	u32 w = self.thread / LANES;
	if (await(crew.warps[w].barrier)) ordered(w);
}

// post gives a value to the other lanes, and returns those of all.
static const u32 *post(u32 v) {
	Warp &w = crew.warps[self.thread / LANES];
	u32 *posted = w.posted[crew.fibers[self.thread].shuffles++ % 2];
	posted[self.thread % LANES] = v;
	await(w.barrier);
	return posted;
}

u32 shuffle(u32 v, u32 from) { return post(v)[from % LANES]; }

u32 ballot(bool v) {
	const u32 *posted = post(v);
	u32 bits = 0;
	for (u32 i = 0; i < LANES; i++) bits |= posted[i] << i;
	return bits;
}

u32 match(u32 v) {
	const u32 *posted = post(v);
	u32 bits = 0;
	for (u32 i = 0; i < LANES; i++) bits |= (u32)(posted[i] == v) << i;
	return bits;
}

u32 orAll(u32 v) {
	const u32 *posted = post(v);
	u32 bits = 0;
	for (u32 i = 0; i < LANES; i++) bits |= posted[i];
	return bits;
}

static void fiberBody() {
	crew.call(crew.argument);
	Fiber &f = crew.fibers[self.thread];
	f.done = true;
	leap(f.stack, crew.home);
}

static void startFibers(u32 threads) {
	crew.barrier = {threads, 0, 0};
	for (u32 i = 0; i < threads; i++) {
		Fiber &f = crew.fibers[i];
		f.memory.resize(STACK_BYTES);
		f.done = false;
		f.at = nullptr;
		f.shuffles = 0;
		enter(f.stack, f.memory.data(), STACK_BYTES, fiberBody);
		if (i % LANES == 0) crew.warps[i / LANES].barrier = {LANES, 0, 0};
	}
}

// runFibers gives each fiber that need not wait its turn until all are done.
static void runFibers(u32 threads, bool backwards) {
	for (u32 left = threads; left > 0;) {
		bool moved = false;
		for (u32 i = 0; i < threads; i++) {
			self.thread = backwards ? threads - 1 - i : i;
			Fiber &f = crew.fibers[self.thread];
			if (f.done || (f.at && f.at->opened == f.opened)) continue;
			moved = true;
			turnTo(self.thread);
			leap(crew.home, f.stack);
			turnTo(NO_THREAD);
			left -= f.done;
		}
		if (!moved) {
			fprintf(stderr, "block %u: threads wait for each other\n", self.block);
			abort();
		}
	}
}

template <class P> struct KernelCall {
	void (*kernel)(P);
	const P &params;
	static void call(const void *argument) {
		const KernelCall &k = *(const KernelCall *)argument;
		k.kernel(k.params);
	}
};

template <class P> static void runBlock(void (*kernel)(P), const P &p, u32 threads) {
	if (threads > MOST_THREADS || threads % LANES != 0) {
		fprintf(stderr, "a block of %u threads\n", threads);
		abort();
	}
	KernelCall<P> k = {kernel, p};
	self.threads = threads;
	crew.call = KernelCall<P>::call;
	crew.argument = &k;
	startFibers(threads);
	another();
	runFibers(threads, self.block % 2);
}

} // namespace hr
