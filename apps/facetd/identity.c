/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a new row's identity: its random id, and the time at which it was made. Never: keeps state. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "vgpu.h"

enum facet_status registry_random_id(char ret_id[VGPU_ID_SIZE], struct facet_error *error)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return facet_error_set(error, FACET_IO, "getrandom gave no random number for an id");
    snprintf(ret_id, VGPU_ID_SIZE, "%016" PRIx64, random);
    return FACET_OK;
}

uint64_t registry_wall_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return facet_timespec_ns(&now);
}
