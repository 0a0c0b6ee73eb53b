/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a device's scheduler is woken: it sleeps until one of many words changes, of which each vGPU has one that its
 * processes raise (struct facet_usage.rings). So a process can disturb only the word of its own vGPU.
 *
 * Owns: the wait, and the threads that wait where the kernel cannot wait for many words at once (before Linux 5.16).
 * Never: reads more of a segment than these words.
 *
 * Thread rule: listen_wait() is called by the scheduler's thread alone, and listen_wake() by any thread. All other
 * functions are called with the device's lock.
 */
#ifndef FACETD_LISTEN_H
#define FACETD_LISTEN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

/* Places for words: one for each vGPU of a device, and one for the doorbell of segments of version 7. */
#define LISTEN_WORDS 129u
#define LISTEN_BELL  128u

struct listen_word {
    const _Atomic uint32_t *word; /* NULL: the place is free */
    uint32_t seen;                /* the value at the last listen_note() */
    struct listen *listen;        /* the next members are for a thread that waits for this word alone */
    pthread_t thread;
    _Atomic bool stopping;
};

struct listen {
    bool by_threads;
    _Atomic uint32_t own; /* raised by listen_wake() */
    uint32_t own_seen;
    struct listen_word words[LISTEN_WORDS];
};

/* Whether the kernel can wait for many words at once. */
bool listen_can_wait_for_many(void);

/* `by_threads`: a thread waits for each word. */
void listen_init(struct listen *listen, bool by_threads);

/* Adds a word, which stays mapped until it is removed. FACET_NO_MEMORY: no thread can be started. */
enum facet_status listen_add(struct listen *listen, uint32_t place, const _Atomic uint32_t *word,
                             struct facet_error *error);
void listen_remove(struct listen *listen, uint32_t place);

/* Remembers the words' values; called before the step that reads what the words announce. */
void listen_note(struct listen *listen);

/*
 * What a thread waits for without the device's lock: made with the lock, after listen_note(). A word that is removed
 * before the wait ends is not read again.
 */
struct listen_wait;
void listen_prepare(const struct listen *listen, struct listen_wait *ret_wait);

/* Returns when a word has changed since listen_note(), after `timeout_ns`, or earlier. */
void listen_wait(struct listen_wait *wait, uint64_t timeout_ns);

/* Ends the wait of the scheduler's thread, or its next one. */
void listen_wake(struct listen *listen);

/* ---- inside struct listen_wait ---- */

#define LISTEN_AT_ONCE 128u /* the most words that the kernel waits for at once */

/* As in <linux/futex.h>, which is too old on some machines that Facet is built on. */
struct listen_futex {
    uint64_t value, address;
    uint32_t flags, reserved;
};

struct listen_wait {
    struct listen_futex futexes[LISTEN_AT_ONCE];
    uint32_t count;
    bool complete; /* all words are among the futexes */
};

#endif
