/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: rules between the members of a workload's configuration. Never: repeats its schema. */
#include "spec/document.h"

static void report_violation(struct facet_violations *violations, const struct facet_step *parent, const char *key,
                             const char *expected)
{
    const struct facet_step at = {.parent = parent, .key = key};

    facet_violations_add(violations, &at, "expected %s", expected);
}

/* Engines obey the last of several options, so no option may contradict `permission`. */
static void check_options(const json_t *mount, const struct facet_step *at, struct facet_violations *violations)
{
    const struct facet_step list = {.parent = at, .key = "options"};
    size_t index;
    json_t *option;

    json_array_foreach (json_object_get(mount, "options"), index, option) {
        const struct facet_step step = {.parent = &list, .index = index};
        const char *text = json_string_value(option);
        if (text && (strcmp(text, "ro") == 0 || strcmp(text, "rw") == 0))
            facet_violations_add(violations, &step, "expected the member 'permission' instead of the option '%s'",
                                 text);
    }
}

static void check_mount(const json_t *mount, const struct facet_step *at, struct facet_violations *violations)
{
    const char *type = facet_json_text(mount, "type"), *source = facet_json_text(mount, "source");

    check_options(mount, at, violations);
    if (!type)
        return;
    if (strcmp(type, "tmpfs") == 0 ? source != NULL : !source || !source[0])
        report_violation(violations, at, "source",
                         strcmp(type, "tmpfs") == 0 ? "none for a tmpfs" : "a path or a volume's name");
    else if (strcmp(type, "bind") == 0 && source[0] != '/')
        report_violation(violations, at, "source", "an absolute path for a bind mount");
    else if (strcmp(type, "volume") == 0 && strchr(source, '/'))
        report_violation(violations, at, "source", "a volume's name");
}

/* A soft limit is at most the hard limit; -1 stands for no limit. */
static void check_limit(const json_t *limit, const struct facet_step *at, struct facet_violations *violations)
{
    const json_t *soft = json_object_get(limit, "soft"), *hard = json_object_get(limit, "hard");
    json_int_t max = json_integer_value(hard), min = json_integer_value(soft);

    if (json_is_integer(soft) && json_is_integer(hard) && max >= 0 && (min < 0 || min > max))
        report_violation(violations, at, "soft", "at most the hard limit");
}

/* A limit of memory and swap together needs a limit of memory, and is not below it: engines refuse it otherwise. */
static void check_swap(const json_t *workload, const struct facet_step *root, struct facet_violations *violations)
{
    const json_t *swap = json_object_get(workload, "memory_swap_limit_bytes");
    const json_t *memory = json_object_get(workload, "memory_limit_bytes");

    if (!json_is_integer(swap) || json_integer_value(swap) < 0 || (memory && !json_is_integer(memory)))
        return;
    if (!memory || json_integer_value(swap) < json_integer_value(memory))
        report_violation(violations, root, "memory_swap_limit_bytes",
                         "at least memory_limit_bytes, which must be given");
}

/* Hooks are mounted as well, so their targets must differ from those of mounts. */
static void check_targets(const json_t *workload, const struct facet_step *hooks, struct facet_violations *violations)
{
    FACET_CLEANUP_JSON json_t *mounted = json_object();
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(workload, "mounts"), index, item) {
        const char *target = facet_json_text(item, "target");
        if (target && json_object_set_new(mounted, target, json_true()) < 0)
            facet_violations_break(violations);
    }
    json_array_foreach (json_object_get(workload, "hooks"), index, item) {
        const struct facet_step at = {.parent = hooks, .index = index};
        const char *target = facet_json_text(item, "target");
        if (target && json_object_get(mounted, target))
            report_violation(violations, &at, "target", "a path at which nothing else is mounted");
    }
}

void facet_rules_workload(const json_t *workload, struct facet_violations *violations)
{
    const struct facet_step root = {0}, mounts = {.parent = &root, .key = "mounts"};
    const struct facet_step limits = {.parent = &root, .key = "ulimits"}, hooks = {.parent = &root, .key = "hooks"};
    const struct facet_step nodes = {.parent = &root, .key = "device_nodes"};
    const struct facet_step seccomp = {.parent = &root, .key = "seccomp"};
    const json_t *profile = json_object_get(workload, "seccomp");
    const char *mode = facet_json_text(profile, "mode"), *name;
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(workload, "mounts"), index, item) {
        const struct facet_step at = {.parent = &mounts, .index = index};
        check_mount(item, &at, violations);
    }
    json_object_foreach (json_object_get(workload, "ulimits"), name, item) {
        const struct facet_step at = {.parent = &limits, .key = name};
        check_limit(item, &at, violations);
    }
    facet_rules_once(json_object_get(workload, "mounts"), &mounts, "target", NULL, violations);
    facet_rules_once(json_object_get(workload, "device_nodes"), &nodes, "path", NULL, violations);
    facet_rules_once(json_object_get(workload, "hooks"), &hooks, "target", NULL, violations);
    check_targets(workload, &hooks, violations);
    check_swap(workload, &root, violations);
    if (mode && (strcmp(mode, "profile") == 0) != (json_object_get(profile, "profile") != NULL))
        report_violation(violations, &seccomp, "profile", "a profile with the mode 'profile', and none otherwise");
}
