/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: waiting for many words; see listen.h. Never: misses a word that changed after listen_note(). */
#include "listen.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "limiter/segment.h"
#include "threads.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define FUTEX_32_BITS 2u /* FUTEX2_SIZE_U32, shared between processes */

/* How long a word that is not waited for can stay unnoticed. */
#define POLL_NS FACET_NS_PER_MS

/* The longest wait of a thread that waits for one word. */
#define THREAD_WAIT_NS FACET_NS_PER_S

static long wait_for_many(struct listen_futex *futexes, uint32_t count, const struct timespec *until)
{
    return syscall(SYS_futex_waitv, futexes, count, 0, until, CLOCK_MONOTONIC);
}

/* A kernel that has the call refuses to wait for no word (EINVAL). A sandbox may refuse the call itself (EPERM). */
bool listen_can_wait_for_many(void)
{
    return wait_for_many(NULL, 0, NULL) < 0 && errno == EINVAL;
}

void listen_init(struct listen *listen, bool by_threads)
{
    memset(listen, 0, sizeof *listen);
    listen->by_threads = by_threads;
}

/* Wakes the scheduler for each change of one word. */
static void *listen_main(void *argument)
{
    struct listen_word *place = argument;
    uint32_t seen = place->seen; /* as of listen_add(): no change after that is missed */

    while (!atomic_load(&place->stopping)) {
        facet_futex_wait(place->word, seen, THREAD_WAIT_NS);
        uint32_t now = atomic_load(place->word);
        if (now != seen)
            listen_wake(place->listen);
        seen = now;
    }
    return NULL;
}

enum facet_status listen_add(struct listen *listen, uint32_t place, const _Atomic uint32_t *word,
                             struct facet_error *error)
{
    struct listen_word *added = &listen->words[place];

    added->word = word;
    added->seen = atomic_load(word);
    added->listen = listen;
    atomic_store(&added->stopping, false);
    if (!listen->by_threads)
        return FACET_OK;
    int result = thread_start(&added->thread, "listen", listen_main, added);
    if (result == 0)
        return FACET_OK;
    added->word = NULL;
    return facet_error_set(error, FACET_NO_MEMORY, "starting a thread that waits for the processes of a vGPU: %s",
                           strerror(result));
}

void listen_remove(struct listen *listen, uint32_t place)
{
    struct listen_word *removed = &listen->words[place];

    if (!removed->word)
        return;
    if (listen->by_threads) {
        atomic_store(&removed->stopping, true);
        /* The thread may not wait yet: it is woken until it has ended. */
        while (pthread_tryjoin_np(removed->thread, NULL) == EBUSY) {
            facet_futex_wake(removed->word);
            nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
    }
    removed->word = NULL;
}

void listen_note(struct listen *listen)
{
    listen->own_seen = atomic_load(&listen->own);
    for (uint32_t i = 0; !listen->by_threads && i < LISTEN_WORDS; i++)
        if (listen->words[i].word)
            listen->words[i].seen = atomic_load_explicit(listen->words[i].word, memory_order_seq_cst);
}

static void add_futex(struct listen_wait *wait, const _Atomic uint32_t *word, uint32_t seen)
{
    wait->complete = wait->complete && wait->count < LISTEN_AT_ONCE;
    if (wait->count < LISTEN_AT_ONCE)
        wait->futexes[wait->count++] =
            (struct listen_futex){.value = seen, .address = (uint64_t)(uintptr_t)word, .flags = FUTEX_32_BITS};
}

void listen_prepare(const struct listen *listen, struct listen_wait *ret_wait)
{
    ret_wait->count = 0;
    ret_wait->complete = true;
    add_futex(ret_wait, &listen->own, listen->own_seen);
    for (uint32_t i = 0; !listen->by_threads && i < LISTEN_WORDS; i++)
        if (listen->words[i].word)
            add_futex(ret_wait, listen->words[i].word, listen->words[i].seen);
}

/* The first futex is the device's own word, for which every kernel can wait. */
static void wait_for_own(const struct listen_wait *wait, uint64_t timeout_ns)
{
    facet_futex_wait((const _Atomic uint32_t *)(uintptr_t)wait->futexes[0].address, (uint32_t)wait->futexes[0].value,
                     timeout_ns);
}

void listen_wait(struct listen_wait *wait, uint64_t timeout_ns)
{
    if (!wait->complete && timeout_ns > POLL_NS)
        timeout_ns = POLL_NS;
    if (wait->count == 1) {
        wait_for_own(wait, timeout_ns);
        return;
    }
    struct timespec until = facet_ns_timespec(facet_clock_now_ns() + timeout_ns);
    if (wait_for_many(wait->futexes, wait->count, &until) >= 0 || errno == ETIMEDOUT || errno == EAGAIN ||
        errno == EINTR)
        return;
    /* A process truncated its vGPU's file (EFAULT): the kernel waits for none of the words. */
    wait_for_own(wait, timeout_ns < POLL_NS ? timeout_ns : POLL_NS);
}

void listen_wake(struct listen *listen)
{
    atomic_fetch_add_explicit(&listen->own, 1, memory_order_seq_cst);
    facet_futex_wake(&listen->own);
}
