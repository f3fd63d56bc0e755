// What a build that looks for races (-DHR_FIBERS -DHR_RACES) is told. The accesses themselves it
// sees by -fsanitize=thread, whose calls races.cc answers.
#pragma once

extern "C" {

// hr_races_memory says that n bytes begin an allocation: written, or as nobody has left them.
void hr_races_memory(const void *p, unsigned long long n, bool written);
// hr_races_blank says that bytes of an allocation are to be taken for ones that nobody has written,
// hr_races_written the contrary.
void hr_races_blank(const void *p, unsigned long long n);
void hr_races_written(const void *p, unsigned long long n);
void hr_races_free(const void *p);

// hr_races_launch begins a kernel, behind those before, or beside the last one.
void hr_races_launch(bool beside);
void hr_races_block();                // another block of threads begins; what is thread_local is its shared memory
void hr_races_turn(unsigned thread);  // a thread goes on; NONE: the scheduler
void hr_races_barrier(unsigned warp); // all threads of a warp, or of the block (NONE), are at a barrier
enum : unsigned { HR_RACES_NONE = ~0u };

// hr_races_forget is for a test of all this: the barriers of warps, or of blocks, order nothing from now on, or
// who waits for what he has fetched is not seen to.
void hr_races_forget(char what); // 'w', 'b', 'f'

// hr_races_wide says that a GPU reads n bytes here, of which not all are used.
void hr_races_wide(const void *p, unsigned long long n);
// hr_races_move copies bytes, of which some may have been written by nobody.
void hr_races_move(void *to, const void *from, unsigned n);
// hr_races_atomic says that what follows on n bytes is atomic.
void hr_races_atomic(const void *p, unsigned long long n);

// hr_races_fetch begins to copy bytes, of which those from first and before stop are wanted, to shared memory.
// hr_races_endFetch ends a group of them, and hr_races_awaitFetch waits for all but the last groups.
void hr_races_fetch(void *to, const void *from, unsigned n, unsigned first, unsigned stop);
void hr_races_endFetch();
void hr_races_awaitFetch(unsigned pending);
}
