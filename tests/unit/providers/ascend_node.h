/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the built ascend provider over the fake node of tests/fake/ascend, for its tests.
 * Never: opens a real library: both paths are always set.
 */
#ifndef ASCEND_NODE_H
#define ASCEND_NODE_H

#include "tests/provider.h"

#define MAX_DEVICES 128

/* Sets the paths of both libraries to fakes of these names. NULL: the library is absent. */
static inline void node_libraries(const char *dcmi, const char *acl)
{
    const char *folder = getenv("FACET_TEST_FAKES");
    char path[4096];

    assert_non_null(folder);
    snprintf(path, sizeof path, "%s/fake_ascend_%s.so", dcmi ? folder : "/nonexistent", dcmi ? dcmi : "x");
    setenv("FACET_ASCEND_DCMI", path, 1);
    snprintf(path, sizeof path, "%s/fake_ascend_%s.so", acl ? folder : "/nonexistent", acl ? acl : "x");
    setenv("FACET_ASCEND_ACL", path, 1);
}

static inline void node_scenario(const char *scenario)
{
    setenv("FACET_FAKE_ASCEND", scenario, 1);
}

static inline const struct facet_provider *node_provider(void)
{
    if (!provider)
        load_provider("ascend");
    return provider;
}

static inline struct facet_provider_instance *node_open(void)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    if (node_provider()->device->open(&instance, &error) != FACET_OK)
        fail_msg("open: %s", error.message);
    return instance;
}

static inline void node_close(struct facet_provider_instance *instance)
{
    node_provider()->device->close(instance);
}

static inline uint32_t node_list(struct facet_provider_instance *instance, struct facet_device_info infos[MAX_DEVICES])
{
    uint32_t count = 0;

    assert_int_equal(node_provider()->device->list(instance, infos, sizeof *infos, MAX_DEVICES, &count, NULL),
                     FACET_OK);
    return count;
}

/* Opens an instance over a node in the state that `scenario` describes, and lists its devices. */
static inline struct facet_provider_instance *
node_start(const char *scenario, struct facet_device_info infos[MAX_DEVICES], uint32_t *ret_count)
{
    node_scenario(scenario);
    struct facet_provider_instance *instance = node_open();
    *ret_count = node_list(instance, infos);
    return instance;
}

#endif
