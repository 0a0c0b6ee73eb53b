/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: vGPU segments for tests. Never: leaves a folder behind. */
#include "segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../scratch.h"
#include "base/clock.h"

static bool print_failure(const struct facet_error *error)
{
    fprintf(stderr, "segment: %s\n", error->message);
    return false;
}

bool test_segment_make(struct test_segment *segment, const char *address, uint64_t memory_bytes)
{
    struct facet_owner_spec spec = {.vgpu_id = "test", .vgpu_name = "test"};
    struct facet_error error = {0};

    *segment = (struct test_segment){0};
    segment->folder = scratch_folder("segment", segment->root, sizeof segment->root);
    if (segment->folder < 0) {
        perror("segment");
        return false;
    }
    snprintf(segment->dir, sizeof segment->dir, "%s/vgpu", segment->root);
    snprintf(segment->lock_path, sizeof segment->lock_path, "%s/device.lock", segment->root);
    facet_limits_init(&spec.limits);
    spec.limits.memory_bytes = memory_bytes;
    snprintf(spec.device.id, sizeof spec.device.id, "test:0");
    snprintf(spec.device.address, sizeof spec.device.address, "%s", address);
    spec.device.memory_bytes = memory_bytes;
    if (facet_device_lock_make(segment->lock_path, &error) != FACET_OK ||
        facet_owner_create(segment->dir, &spec, segment->lock_path, &segment->owner, &error) != FACET_OK)
        return print_failure(&error);
    facet_owner_set_gate(segment->owner, FACET_GATE_OPEN);
    test_segment_beat(segment);
    return true;
}

void test_segment_beat(struct test_segment *segment)
{
    facet_owner_set_heartbeat(segment->owner, facet_clock_now_ns());
}

void test_segment_remove(struct test_segment *segment)
{
    struct facet_error error = {0};

    facet_owner_close(segment->owner);
    if (facet_owner_remove(segment->dir, &error) != FACET_OK)
        print_failure(&error);
    unlink(segment->lock_path);
    rmdir(segment->root);
    close(segment->folder);
}

struct facet_usage_totals test_segment_totals(const struct test_segment *segment)
{
    struct facet_usage_totals totals;

    facet_owner_totals(segment->owner, &totals);
    return totals;
}
