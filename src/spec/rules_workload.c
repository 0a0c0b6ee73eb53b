/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what holds between the members of a workload's configuration. Never: repeats what its schema says. */
#include "spec/document.h"

static void report(struct facet_violations *violations, const struct facet_step *parent, const char *key,
                   const char *expected)
{
    const struct facet_step at = {.parent = parent, .key = key};

    facet_violations_add(violations, &at, "expected %s", expected);
}

static void judge_mount(const json_t *mount, const struct facet_step *at, struct facet_violations *violations)
{
    const char *type = facet_json_text(mount, "type"), *source = facet_json_text(mount, "source");

    if (!type)
        return;
    if (strcmp(type, "tmpfs") == 0 ? source != NULL : !source || !source[0])
        report(violations, at, "source", strcmp(type, "tmpfs") == 0 ? "none for a tmpfs" : "where it is from");
    else if (strcmp(type, "bind") == 0 && source[0] != '/')
        report(violations, at, "source", "an absolute path for a bind mount");
    else if (strcmp(type, "volume") == 0 && strchr(source, '/'))
        report(violations, at, "source", "a volume's name");
}

/* A soft limit is at most the hard one; -1 is beyond any number. */
static void judge_limit(const json_t *limit, const struct facet_step *at, struct facet_violations *violations)
{
    const json_t *soft = json_object_get(limit, "soft"), *hard = json_object_get(limit, "hard");
    json_int_t most = json_integer_value(hard), least = json_integer_value(soft);

    if (json_is_integer(soft) && json_is_integer(hard) && most >= 0 && (least < 0 || least > most))
        report(violations, at, "soft", "at most the hard limit");
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

    json_array_foreach(json_object_get(workload, "mounts"), index, item)
    {
        const struct facet_step at = {.parent = &mounts, .index = index};
        judge_mount(item, &at, violations);
    }
    json_object_foreach(json_object_get(workload, "ulimits"), name, item)
    {
        const struct facet_step at = {.parent = &limits, .key = name};
        judge_limit(item, &at, violations);
    }
    facet_rules_once(json_object_get(workload, "mounts"), &mounts, "target", NULL, violations);
    facet_rules_once(json_object_get(workload, "device_nodes"), &nodes, "path", NULL, violations);
    facet_rules_once(json_object_get(workload, "hooks"), &hooks, "target", NULL, violations);
    if (mode && (strcmp(mode, "profile") == 0) != (json_object_get(profile, "profile") != NULL))
        report(violations, &seccomp, "profile", "a profile with the mode 'profile', and none otherwise");
}
