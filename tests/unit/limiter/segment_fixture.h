/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a segment in a temporary folder for the limiter's tests. Never: needs the daemon. */
#ifndef TEST_SEGMENT_FIXTURE_H
#define TEST_SEGMENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "limiter/owner.h"
#include "limiter/tenant.h"

#define MIB UINT64_C(1048576)

struct fixture {
    char root[64], dir[96], lock[96];
    struct facet_owner_spec spec;
    struct facet_owner *owner;
};

/* Sets a heartbeat far in the future. Tenants pace themselves without heartbeats, and the machine may be slow. */
static inline void fixture_owner_lives(const struct fixture *fixture)
{
    facet_owner_set_heartbeat(fixture->owner, facet_clock_now_ns() + 3600 * FACET_NS_PER_S);
}

static inline int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    snprintf(fixture->root, sizeof fixture->root, "/tmp/facet-limiter-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->dir, sizeof fixture->dir, "%s/vgpu", fixture->root);
    snprintf(fixture->lock, sizeof fixture->lock, "%s/device.lock", fixture->root);
    fixture->spec = (struct facet_owner_spec){.vgpu_id = "0123", .vgpu_name = "test"};
    snprintf(fixture->spec.device.id, sizeof fixture->spec.device.id, "test:0");
    snprintf(fixture->spec.device.address, sizeof fixture->spec.device.address, "platform=p;name=n;ordinal=0");
    facet_limits_init(&fixture->spec.limits);
    fixture->spec.limits.memory_bytes = 64 * MIB;
    assert_int_equal(facet_device_lock_make(fixture->lock, NULL), FACET_OK);
    assert_int_equal(facet_owner_create(fixture->dir, &fixture->spec, fixture->lock, &fixture->owner, NULL), FACET_OK);
    fixture_owner_lives(fixture);
    *state = fixture;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;

    facet_owner_close(fixture->owner);
    facet_owner_remove(fixture->dir, NULL);
    unlink(fixture->lock);
    rmdir(fixture->root);
    free(fixture);
    return 0;
}

static inline struct facet_tenant fixture_attach(const struct fixture *fixture)
{
    struct facet_tenant tenant;
    struct facet_error error = {0};

    if (facet_tenant_attach(fixture->dir, &tenant, &error) != FACET_OK)
        fail_msg("attach: %s", error.message);
    return tenant;
}

static inline struct facet_usage_totals fixture_totals(const struct fixture *fixture)
{
    struct facet_usage_totals totals;

    facet_owner_totals(fixture->owner, &totals);
    return totals;
}

#endif
