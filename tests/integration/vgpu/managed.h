/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the helpers that test_managed*.c share. Never: asserts a test's result. */
#ifndef VGPU_MANAGED_H
#define VGPU_MANAGED_H

#include "world.h"

#include <signal.h>

#define PAGE       (64 * KIB)
#define PAGE_WORDS (PAGE / sizeof(uint64_t))

static inline bool is_shared(void)
{
    const char *place = getenv("FACET_TEST_PLACE");

    return place && atoi(place) == FACET_SESSION_IN_PROCESS;
}

static inline void *managed(uint32_t id, uint64_t bytes)
{
    void *pointer = NULL;

    OK(facet_vgpu_allocate_managed(world.driver, id, bytes, NULL, &pointer, ERROR));
    return pointer;
}

static inline struct facet_managed_usage usage_of(uint32_t id, const void *pointer)
{
    struct facet_managed_usage usage = {.size = sizeof usage};

    OK(facet_vgpu_get_managed(world.driver, id, pointer, &usage, ERROR));
    return usage;
}

/* A hash of `value`. */
static inline uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return (value ^ value >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static inline void launch_add(uint32_t id, uint32_t stream, uint64_t *words, uint64_t count, uint64_t value)
{
    struct facet_kernel *kernel = vgpu_kernel(id, "add", (uintptr_t)words, value);

    vgpu_launch(id, stream, kernel, count);
    facet_kernel_destroy(kernel);
}

/* ---- faults that end in a signal ---- */

static sigjmp_buf caught;
static volatile sig_atomic_t signals;

static inline void on_signal(int number)
{
    (void)number;
    signals++;
    siglongjmp(caught, 1);
}

static inline void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};

    signals = 0;
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

static inline void restore_signals(void)
{
    signal(SIGBUS, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
}

static inline bool can_read(const volatile uint64_t *word)
{
    if (sigsetjmp(caught, 1))
        return false;
    (void)*word;
    return true;
}

#endif
