/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: what the tests of the sim provider's core share: functions that open an instance of a profile, wrappers of its
 * operations with fewer arguments, and a made-up engine, whose use of the device a test decides.
 * Never: uses the real engine.
 */
#ifndef SIM_CORE_FIXTURE_H
#define SIM_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

/* The made-up engine's answers. */
struct engine_double {
    bool uses_device;
    const char *partition; /* uuid in use, or NULL */
    const char *worker;    /* name in use, or NULL */
    uint64_t next_ns;      /* when the next operation completes */
    uint64_t advanced_ns;  /* the latest time given to sim_engine_advance() */
    unsigned lost;         /* how often sim_engine_lose() was called */
};
extern struct engine_double engine_double;

/* Opens the profile with these settings (NULL: unset), and resets the made-up engine. Fails the test on an error. */
struct facet_provider_instance *open_machine(const char *profile, const char *state, const char *faults);
enum facet_status try_open(const char *profile, const char *state, const char *faults,
                           struct facet_provider_instance **ret_instance, struct facet_error *error);

/* Makes a file with this text in a folder of its own; remove_file() removes both. */
const char *make_file(const char *text);
void remove_file(const char *path);
/* Makes an empty folder; remove_folder() removes it with its files. */
const char *make_folder(void);
void remove_folder(const char *path);

enum facet_status create_partition(struct facet_provider_instance *instance, uint32_t device, const char *template_id,
                                   uint32_t start, struct facet_partition_info *ret_info, struct facet_error *error);
/* Lists at most 64, and returns how many there are. */
uint32_t list_partitions(struct facet_provider_instance *instance, uint32_t device,
                         struct facet_partition_info infos[64]);
/* Lists at most 256, and returns how many there are. */
uint32_t list_events(struct facet_provider_instance *instance, uint64_t after, struct facet_event events[256]);

/* Expects the status, and a message that holds `words`. */
#define assert_refused(call, expected_status, words)                                                                   \
    do {                                                                                                               \
        struct facet_error error = {0};                                                                                \
        assert_int_equal((call), (expected_status));                                                                   \
        assert_int_equal(error.status, (expected_status));                                                             \
        if (!strstr(error.message, (words)))                                                                           \
            fail_msg("\"%s\" does not say \"%s\"", error.message, (words));                                            \
    } while (0)

#endif
