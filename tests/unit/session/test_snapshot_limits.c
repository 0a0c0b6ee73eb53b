/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that a snapshot holds no limits, and that a limit set before restoring holds: over simulated devices,
 * from one process into another.
 */
#include "session_fixture.h"

#include <unistd.h>

#include <facet/snapshot.h>

enum { BYTES = 32 << 20 };

/* The simulated devices in a process of their own. */
struct node {
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
};

static void assert_ok(enum facet_status status, const struct facet_error *error)
{
    if (status != FACET_OK)
        fail_msg("%s: %s", facet_status_name(status), error->message);
}

static struct node open_node(void)
{
    struct facet_error error = {0};
    struct node node = {0};

    assert_ok(facet_session_open(getenv("FACET_TEST_SIM"), NULL, &node.session, &error), &error);
    node.provider = facet_session_provider(node.session);
    node.instance = facet_session_instance(node.session);
    return node;
}

static void set_limit(const struct node *node, uint64_t bytes)
{
    struct facet_error error = {0};

    assert_ok(node->provider->limit->set_memory(node->instance, 0, "w", bytes, &error), &error);
}

static uint64_t used_bytes(const struct node *node)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};
    struct facet_error error = {0};

    assert_ok(node->provider->metrics->device(node->instance, 0, &metrics, &error), &error);
    return metrics.memory_used_bytes;
}

static void begin_work(const struct node *node, uint64_t *ret_context, uint64_t *ret_address)
{
    const struct facet_memory_ops *memory = node->provider->memory;
    struct facet_error error = {0};

    set_limit(node, 2 * (uint64_t)BYTES);
    assert_ok(memory->create_context(node->instance, 0, NULL, "w", ret_context, &error), &error);
    assert_ok(memory->alloc(node->instance, *ret_context, BYTES, ret_address, &error), &error);
    assert_ok(memory->write(node->instance, *ret_context, *ret_address, "saved", 6, &error), &error);
}

static void assert_nothing_is_there(const struct node *node, uint64_t context, uint64_t used)
{
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(node->provider->memory->info(node->instance, context, &info, NULL), FACET_NOT_FOUND);
    assert_true(used_bytes(node) == used);
}

static void a_limit_that_is_too_small_refuses_and_changes_nothing(void **state)
{
    char folder[] = "/tmp/facet-test-limits-XXXXXX", path[64], text[6] = "";
    struct facet_worker_limit limit = {.size = sizeof limit};
    struct facet_error error = {0};
    uint64_t context, address;
    struct node node = open_node();

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/w.snapshot", folder);
    begin_work(&node, &context, &address);
    assert_ok(facet_snapshot_save(node.session, 0, "w", path, &error), &error);
    facet_session_close(node.session);

    node = open_node();
    uint64_t used = used_bytes(&node);
    set_limit(&node, BYTES - 1);
    assert_int_equal(facet_snapshot_restore(node.session, 0, "w", path, &error), FACET_NO_SPACE);
    assert_int_equal(error.status, FACET_NO_SPACE);
    assert_nothing_is_there(&node, context, used);

    /* A hard limit must be cleared before another is set. */
    assert_ok(node.provider->limit->clear(node.instance, 0, "w", &error), &error);
    set_limit(&node, BYTES);
    assert_ok(facet_snapshot_restore(node.session, 0, "w", path, &error), &error);
    assert_ok(node.provider->memory->read(node.instance, context, address, sizeof text, text, &error), &error);
    assert_string_equal(text, "saved");
    assert_ok(node.provider->limit->get(node.instance, 0, "w", &limit, &error), &error);
    assert_true(limit.memory_bytes == BYTES); /* not the limit at the time of the snapshot */
    assert_int_equal(node.provider->memory->alloc(node.instance, context, 4096, &address, NULL), FACET_QUOTA);
    facet_session_close(node.session);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_is_too_small_refuses_and_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
