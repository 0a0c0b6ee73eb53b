/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that segments of the version before are served while processes are in them, and renewed after that.
 * Never: needs a daemon of that version: the fixture writes what it would have left.
 */
#include "segment_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define OLD 7u

struct old {
    struct fixture *fixture;
    struct facet_bell *bell;
    char bell_path[FACET_DEVICE_PATH_SIZE];
};

static void write_version(const char *dir, const char *file, uint32_t version)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, file);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &version, sizeof version, 8), sizeof version);
    close(fd);
}

/* A segment as version 7 made it: with a doorbell, and without a link to the device's lock file. */
static int set_up(void **state)
{
    struct old *old = calloc(1, sizeof *old);
    struct facet_bell bell = {.magic = FACET_BELL_MAGIC};
    char path[128];

    assert_int_equal(fixture_setup((void **)&old->fixture), 0);
    unlink(old->fixture->lock);
    facet_device_bell_path(old->fixture->lock, old->bell_path);
    int fd = open(old->bell_path, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, &bell, sizeof bell), sizeof bell);
    close(fd);
    snprintf(path, sizeof path, "%s/bell", old->fixture->dir);
    assert_int_equal(link(old->bell_path, path), 0);
    snprintf(path, sizeof path, "%s/device", old->fixture->dir);
    assert_int_equal(unlink(path), 0);
    write_version(old->fixture->dir, "policy", OLD);
    write_version(old->fixture->dir, "usage", OLD);
    assert_int_equal(facet_bell_open(old->bell_path, &old->bell, NULL), FACET_OK);
    *state = old;
    return 0;
}

static int tear_down(void **state)
{
    struct old *old = *state;

    facet_bell_unmap(old->bell);
    unlink(old->bell_path);
    fixture_teardown((void **)&old->fixture);
    free(old);
    return 0;
}

static void adopt(struct old *old)
{
    facet_owner_close(old->fixture->owner);
    old->fixture->owner = NULL;
    assert_int_equal(facet_device_lock_make(old->fixture->lock, NULL), FACET_OK);
    assert_int_equal(facet_owner_link_device(old->fixture->dir, old->fixture->lock, NULL), FACET_OK);
    assert_int_equal(facet_owner_adopt(old->fixture->dir, &old->fixture->spec, &old->fixture->owner, NULL), FACET_OK);
    fixture_owner_lives(old->fixture);
}

/* The owner of version 7 may still live, and hears the doorbell alone. */
static void a_process_rings_the_doorbell_of_an_old_segment(void **state)
{
    struct old *old = *state;
    struct facet_tenant tenant = fixture_attach(old->fixture);
    uint32_t rings = atomic_load(&old->bell->rings);

    facet_ring(tenant.rings, tenant.sleeping);
    assert_int_equal(atomic_load(&old->bell->rings), rings + 1);
    assert_int_equal(atomic_load(facet_owner_rings(old->fixture->owner)), 0);
    int held = facet_tenant_lock_device(&tenant, 0);
    assert_true(held >= 0);
    facet_tenant_unlock_device(&tenant, held);
    facet_tenant_detach(&tenant);
}

static void what_a_process_holds_is_kept_and_its_segment_stays_old(void **state)
{
    struct old *old = *state;
    struct facet_tenant tenant = fixture_attach(old->fixture), later;

    assert_true(facet_tenant_reserve(&tenant, 48 * MIB));
    adopt(old);
    assert_int_equal(fixture_totals(old->fixture).memory_bytes, 48 * MIB);
    assert_int_equal(tenant.policy->version, OLD);
    later = fixture_attach(old->fixture);
    assert_ptr_equal(later.rings == &later.bell->rings ? later.bell : NULL, later.bell);
    assert_false(facet_tenant_reserve(&later, 17 * MIB)); /* of 64 */
    assert_true(facet_tenant_reserve(&later, 16 * MIB));
    facet_tenant_detach(&later);
    facet_tenant_detach(&tenant);
}

/* Processes of both versions exclude each other while they measure the device. */
static void the_lock_file_is_the_doorbell_while_that_is_there(void **state)
{
    struct old *old = *state;
    struct facet_tenant before = fixture_attach(old->fixture);
    char dir[128];

    adopt(old);
    int held = facet_tenant_lock_device(&before, 0);
    assert_true(held >= 0);
    snprintf(dir, sizeof dir, "%s/new", old->fixture->root);
    struct facet_owner *owner;
    struct facet_tenant tenant;
    assert_int_equal(facet_owner_create(dir, &old->fixture->spec, old->fixture->lock, &owner, NULL), FACET_OK);
    assert_int_equal(facet_tenant_attach(dir, &tenant, NULL), FACET_OK);
    assert_int_equal(facet_tenant_lock_device(&tenant, 0), -1);
    facet_tenant_unlock_device(&before, held);
    held = facet_tenant_lock_device(&tenant, 0);
    assert_true(held >= 0);
    facet_tenant_unlock_device(&tenant, held);
    facet_tenant_detach(&tenant);
    facet_tenant_detach(&before);
    facet_owner_close(owner);
    facet_owner_remove(dir, NULL);
}

static void an_unused_segment_becomes_one_of_this_version(void **state)
{
    struct old *old = *state;

    adopt(old);
    struct facet_tenant tenant = fixture_attach(old->fixture);
    assert_int_equal(tenant.policy->version, FACET_SEGMENT_VERSION);
    assert_int_equal(tenant.usage->version, FACET_SEGMENT_VERSION);
    assert_null(tenant.bell);
    assert_true(atomic_load(facet_owner_rings(old->fixture->owner)) > 0);
    facet_tenant_detach(&tenant);
}

/* An owner that was killed between the two files leaves them with different versions. */
static void a_renewal_that_was_interrupted_is_finished(void **state)
{
    struct old *old = *state;

    write_version(old->fixture->dir, "usage", FACET_SEGMENT_VERSION);
    struct facet_tenant tenant = fixture_attach(old->fixture);
    assert_non_null(tenant.bell);
    facet_tenant_detach(&tenant);
    an_unused_segment_becomes_one_of_this_version(state);
}

static void other_versions_are_refused(void **state)
{
    struct old *old = *state;

    for (uint32_t version = OLD - 1; version <= FACET_SEGMENT_VERSION + 1; version += 3) {
        struct facet_error error;
        struct facet_tenant tenant;

        write_version(old->fixture->dir, "policy", version);
        assert_int_equal(facet_tenant_attach(old->fixture->dir, &tenant, &error), FACET_ABI_MISMATCH);
        assert_non_null(strstr(error.message, "this program speaks 7 to 8"));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_rings_the_doorbell_of_an_old_segment),
        TEST(what_a_process_holds_is_kept_and_its_segment_stays_old),
        TEST(the_lock_file_is_the_doorbell_while_that_is_there),
        TEST(an_unused_segment_becomes_one_of_this_version),
        TEST(a_renewal_that_was_interrupted_is_finished),
        TEST(other_versions_are_refused),
    };

    return cmocka_run_group_tests_name("limiter/version", tests, NULL, NULL);
}
