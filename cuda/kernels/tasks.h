// Chunks that a block of threads decodes at a time, a warp an item of one of them.
#pragma once
#include "abi.h"
#include "simt.h"

namespace hr {

// Tasks are so many chunks that no warp is idle while another decodes the only item of its chunk. A
// Task reads what there is of headers in begin, which one thread calls, and says then how many items
// it has; what is left when all are decoded is done by all threads in finish.
template <class Task> struct Tasks {
	enum { CHUNKS = 2 };

	Task tasks[CHUNKS];
	u32 count;
	u32 next; // item that no warp has taken, of all tasks'

	// begin is the part of all threads, and so is finish.
	HR_FN void begin(const Chunk *chunks, u32 n) {
		syncBlock(); // the last chunks are done
		for (u32 t = thread(); t < n; t += threads()) tasks[t].begin(chunks[t]);
		if (thread() == 0) {
			count = n;
			next = 0;
		}
		syncBlock();
	}

	// take gives a warp an item, and the number of its task. It is false if there are no more.
	HR_FN bool take(u32 &task, u32 &item) {
		item = lane() == 0 ? hr::take(&next) : 0;
		item = shuffle(item, 0);
		task = 0;
		HR_ROLLED for (; task < count && item >= tasks[task].items; task++) item -= tasks[task].items;
		return task < count;
	}

	HR_FN void finish(u32 *status) const {
		syncBlock();
		HR_ROLLED for (u32 t = 0; t < count; t++) {
			const Task &task = tasks[t];
			task.finish();
			if (thread() == 0) status[task.chunk.status] = task.worst();
		}
	}
};

} // namespace hr
