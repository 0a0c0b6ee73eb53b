/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps of a group's child. Never: calls an operation itself. */
#include "conformance/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conformance/manners.h"
#include "conformance/wire.h"

/*
 * A check must leave no process and no core file. Processes that a provider starts join the child's own process group,
 * which the runner kills.
 */
static void end_other_processes(void)
{
    const struct rlimit no_core = {0};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
}

/* Whether a device of a lower index has the same name, memory, modes and capabilities: of such devices only the first
 * is checked. */
static bool is_earlier_kind(const struct facet_check *check, uint32_t index)
{
    const struct facet_device_info *one = &check->devices[index];

    for (uint32_t i = 0; i < index; i++) {
        const struct facet_device_info *other = &check->devices[i];

        if (one->capabilities == other->capabilities && one->modes == other->modes && one->kind == other->kind &&
            one->memory_bytes == other->memory_bytes && strncmp(one->name, other->name, sizeof one->name) == 0)
            return true;
    }
    return false;
}

static uint32_t kinds_of_devices(const struct facet_check *check)
{
    uint32_t kinds = 0;

    for (uint32_t i = 0; i < check->device_count; i++)
        kinds += !is_earlier_kind(check, i);
    return kinds;
}

static void run_case(struct facet_check *check, const struct facet_check_case *one)
{
    for (uint32_t i = 0; i < check->device_count; i++) {
        if (is_earlier_kind(check, i) || (check->devices[i].capabilities & one->needs) != one->needs)
            continue;
        check->device = i;
        one->run(check);
    }
    check->device = 0;
}

/* Skips are reported once per promise that no device makes, not once per case. */
static uint64_t skip_unclaimed(struct facet_check *check, uint64_t needs, uint64_t reported)
{
    uint64_t missing = needs & ~reported;

    for (uint64_t rest = missing; rest; rest &= rest - 1) {
        uint64_t bit = rest & -rest;
        char text[64];

        if (facet_check_any_claims(check, bit))
            continue;
        reported |= bit;
        snprintf(text, sizeof text, "%s: what %s promises", check->group, facet_check_capability_name(bit));
        facet_check_skip(check, text, check->device_count ? "no device claims %s" : "there is no device to claim %s",
                         facet_check_capability_name(bit));
    }
    return reported;
}

static void run_cases(struct facet_check *check, const struct facet_check_group *group)
{
    uint64_t reported = 0;

    for (const struct facet_check_case *one = group->cases; one->run; one++) {
        if (one->needs) {
            reported = skip_unclaimed(check, one->needs, reported);
            check->several_kinds = kinds_of_devices(check) > 1;
            run_case(check, one);
            check->several_kinds = false;
        } else {
            one->run(check);
        }
    }
}

static void run_opened(struct facet_check *check, const struct facet_check_group *group,
                       const struct facet_check_manners *manners)
{
    bool quiet = check->quiet = strcmp(group->name, "device") != 0;
    bool opened = facet_check_open(check);

    check->quiet = false;
    if (opened)
        run_cases(check, group);
    check->quiet = quiet;
    if (!check->isolated)
        facet_check_manners_opened(manners, check);
    facet_check_begin(check, "device.close: closes what was used");
    facet_check_close(check);
    facet_check_judge(check, true, "%s", "");
}

_Noreturn void facet_check_group_run(const struct facet_check_group *group,
                                     const struct facet_conformance_options *options, int report_fd)
{
    struct facet_check check = {
        .path = options->path, .group = group->name, .isolated = options->isolated, .report_fd = report_fd};
    const struct facet_check_message done = {.kind = FACET_CHECK_DONE};
    static struct facet_check_manners manners;

    end_other_processes();
    if (!facet_check_manners_begin(&manners))
        _exit(FACET_CHECK_EXIT_UNHEARD);
    if (group->opened_before)
        facet_check_open_before(&check);
    if (group->opens_itself && options->isolated)
        facet_check_skip(&check, group->name, "needs the provider in this process");
    else if (group->opens_itself)
        run_cases(&check, group);
    else if (facet_check_load(&check))
        run_opened(&check, group, &manners);
    check.quiet = strcmp(group->name, "entry") != 0;
    if (!options->isolated)
        facet_check_manners_end(&manners, &check);
    _exit(write(report_fd, &done, sizeof done) == sizeof done ? EXIT_SUCCESS : FACET_CHECK_EXIT_UNHEARD);
}
