#include "cuda.h"
#include "memory.h"
#include "slot.h"

#include <pthread.h>
#include <stdlib.h>

/* A slot on a GPU goes back to the engine once the work is done that its consumers'
 * streams have at its last release. The events are recorded there and then, by the
 * deleter; threads wait for them, so that no consumer does. A thread sleeps in the
 * driver for one slot, so that a slot on a slow stream keeps no other one back: there
 * come to be as many as slots have waited at one time. */

enum {
	MOST = 16,         /* streams and events of one slot; beyond them all streams count */
	MOST_THREADS = 64, /* more slots than that wait in turn */
};

struct hr_uses {
	hr_gpu *gpu;
	int64_t streams[MOST];
	void *events[MOST];
	int stream_count, event_count;
	int anywhere; /* on streams that are not known */
	hr_slot *slot;
	hr_uses *next;
};

/* One lock for all uses: each holds it for moments. A forked child does not take it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static hr_uses *first, **last = &first; /* slots that no thread waits for yet */
static int queued, threads, idle;       /* of the threads, those without a slot */

hr_uses *hr_uses_new(hr_gpu *gpu)
{
	hr_uses *uses = calloc(1, sizeof *uses);
	if (uses != NULL)
		uses->gpu = gpu;
	return uses;
}

void hr_uses_add(hr_uses *uses, int64_t stream)
{
	pthread_mutex_lock(&lock);
	int known = 0;
	for (int i = 0; i < uses->stream_count; i++)
		known |= uses->streams[i] == stream;
	if (stream < 0 || stream == 2 || (!known && uses->stream_count == MOST)) /* 2 is another thread's */
		uses->anywhere = 1;
	else if (!known)
		uses->streams[uses->stream_count++] = stream;
	pthread_mutex_unlock(&lock);
}

/* mark notes what a stream has now; where that cannot be, all streams count. */
static void mark(hr_uses *uses, int64_t stream)
{
	void *event = NULL;
	if (uses->event_count < MOST && hr_gpu_mark(uses->gpu, stream, &event) == 0)
		uses->events[uses->event_count++] = event;
	else
		uses->anywhere = 1;
}

void hr_uses_mark(hr_uses *uses, int64_t stream)
{
	pthread_mutex_lock(&lock);
	if (stream < 0)
		uses->anywhere = 1;
	else
		mark(uses, stream);
	pthread_mutex_unlock(&lock);
}

/* finish waits for the work and ends the slot. A driver that is gone, as at the end
 * of the process, has no work left. */
static void finish(hr_uses *uses)
{
	for (int i = 0; i < uses->event_count; i++)
		hr_gpu_wait(uses->gpu, uses->events[i]);
	if (uses->anywhere)
		hr_gpu_synchronize(uses->gpu);
	hr_slot_end(uses->slot);
	free(uses);
}

static void *wait_for_slots(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (first == NULL)
			pthread_cond_wait(&some, &lock);
		hr_uses *uses = first;
		first = uses->next;
		if (first == NULL)
			last = &first;
		queued--;
		idle--;
		pthread_mutex_unlock(&lock);
		finish(uses);
		pthread_mutex_lock(&lock);
		idle++;
	}
	return NULL;
}

/* start sees that there is a thread for one more slot; -1 if there is none at all. */
static int start(void)
{
	pthread_t thread;
	if (queued < idle || threads == MOST_THREADS)
		return 0;
	if (pthread_create(&thread, NULL, wait_for_slots, NULL) != 0)
		return threads > 0 ? 0 : -1;
	pthread_detach(thread);
	threads++;
	idle++;
	return 0;
}

void hr_uses_end(hr_uses *uses, hr_slot *slot)
{
	uses->slot = slot;
	for (int i = 0; i < uses->stream_count; i++)
		mark(uses, uses->streams[i]);
	if (uses->event_count > 0 || uses->anywhere) {
		pthread_mutex_lock(&lock);
		if (start() == 0) {
			uses->next = NULL;
			*last = uses;
			last = &uses->next;
			queued++;
			pthread_cond_signal(&some);
			pthread_mutex_unlock(&lock);
			return;
		}
		pthread_mutex_unlock(&lock);
	}
	finish(uses);
}
