/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the order in which hooks are called, and undoing in reverse. Never: keeps anything between two calls. */
#include <inttypes.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"
#include "spec/document.h"
#include "spec/workload.h"

enum { HOOKS_MAX = 256 };

/* The caller's hooks and workload, after they were checked. */
struct run {
    const struct facet_lifecycle_hook *const *hooks;
    uint32_t count;
    struct facet_lifecycle_workload workload;
    struct facet_error *error;
};

static struct facet_lifecycle_hook hook_at(const struct run *run, uint32_t index)
{
    struct facet_lifecycle_hook hook = {0};

    facet_struct_take(&hook, sizeof hook, run->hooks[index]);
    return hook;
}

static enum facet_status begin_run(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                   const struct facet_lifecycle_workload *workload, struct facet_error *error,
                                   struct run *ret_run)
{
    struct run run = {.hooks = hooks, .count = count, .error = error};

    if (!facet_struct_take(&run.workload, sizeof run.workload, workload))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "workload",
                                    "workload: expected a struct with its size");
    FACET_NEED_KNOWN("workload", workload, error);
    if (count > HOOKS_MAX || (count && !hooks))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "hooks", "%" PRIu32 " hooks: expected at most %d",
                                    count, HOOKS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct facet_lifecycle_hook hook = {0};
        if (!facet_struct_take(&hook, sizeof hook, hooks[i]) || !hook.name)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "hooks",
                                        "hook %" PRIu32 ": expected its size and name", i);
        FACET_NEED_KNOWN("hooks", hooks[i], error);
        FACET_NEED_RESERVED("a hook", &hook, error);
    }
    *ret_run = run;
    return FACET_OK;
}

/* Adds the hook's name to the error of its failure; an error without a reason gets the status' text. */
static enum facet_status name_failure(const struct run *run, const char *name, const char *what,
                                      enum facet_status status)
{
    if (run->error && run->error->status != status)
        facet_error_set(run->error, status, "%s", facet_status_text(status));
    facet_error_prefix(run->error, "%s of hook '%.80s'", what, name);
    return status;
}

/* Must be called before each hook, so that the hook's failure does not show the error of an earlier hook. */
static void forget_error(const struct run *run)
{
    if (run->error)
        run->error->status = FACET_OK;
}

/* Undoes the first `count` hooks in reverse order. Their failures are ignored: the error that led here is reported. */
static void undo_hooks(const struct run *run, uint32_t count)
{
    struct facet_lifecycle_workload aborted = run->workload;

    aborted.aborted = 1;
    for (uint32_t i = count; i-- > 0;) {
        const struct facet_lifecycle_hook hook = hook_at(run, i);
        struct facet_error ignored = {0};
        if (hook.post_terminate)
            hook.post_terminate(hook.context, &aborted, &ignored);
    }
}

/* --- creating --------------------------------------------------------------------------------------------------- */

static enum facet_status ask_create(const struct run *run, uint32_t index, struct facet_workload *config,
                                    struct facet_lifecycle_answer *answer)
{
    const struct facet_lifecycle_hook hook = hook_at(run, index);

    answer->hook = hook.name;
    if (!hook.pre_create)
        return FACET_OK;
    forget_error(run);
    enum facet_status status = hook.pre_create(hook.context, &run->workload, config, answer, run->error);
    if (status != FACET_OK)
        return name_failure(run, hook.name, "pre_create", status);
    answer->hook = hook.name;
    answer->reason[sizeof answer->reason - 1] = '\0';
    facet_text_make_line(answer->reason);
    if (answer->verdict > FACET_VERDICT_DEFER)
        return facet_error_argument(run->error, FACET_OUT_OF_RANGE, "verdict", "hook '%.80s': verdict %" PRIu32,
                                    hook.name, answer->verdict);
    return FACET_OK;
}

/* The name of the hook with whose part the part of hook `index` conflicts, for the message. */
static const char *find_conflicting_hook(const struct run *run, struct facet_workload *const *parts, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        json_t *probe = json_incref(parts[i]->root);
        enum facet_status status = facet_merge_configuration(&probe, "", parts[index]->root, "", NULL);
        json_decref(probe);
        if (status == FACET_ALREADY_EXISTS)
            return hook_at(run, i).name;
    }
    return "another hook";
}

/* The name of the hook whose part made the merged configuration invalid. */
static const char *find_invalidating_hook(const struct run *run, struct facet_workload *const *parts)
{
    FACET_CLEANUP_JSON json_t *probe = json_incref(parts[0]->root);

    for (uint32_t i = 1; i < run->count; i++)
        if (facet_merge_configuration(&probe, "", parts[i]->root, "", NULL) == FACET_OK &&
            facet_document_demand(FACET_DOCUMENT_WORKLOAD, probe, NULL) == FACET_INVALID_ARGUMENT)
            return hook_at(run, i).name;
    return "a hook";
}

/* Parts that are valid alone, and do not conflict, may be invalid together: this is reported while everything can still
 * be undone. */
static enum facet_status check_merged(const struct run *run, struct facet_workload *const *parts,
                                      const struct facet_workload *merged)
{
    if (run->count < 2)
        return FACET_OK;
    enum facet_status status = facet_document_demand(FACET_DOCUMENT_WORKLOAD, merged->root, run->error);
    if (status == FACET_INVALID_ARGUMENT)
        name_failure(run, find_invalidating_hook(run, parts), "the part", status);
    return status;
}

static enum facet_status ask_all(const struct run *run, struct facet_workload **parts, struct facet_workload *merged,
                                 struct facet_lifecycle_answer *answer, uint32_t *ret_asked)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && answer->verdict == FACET_VERDICT_GO && i < run->count; i++) {
        status = facet_workload_create(&parts[i], run->error);
        if (status == FACET_OK)
            status = ask_create(run, i, parts[i], answer);
        /* A hook that failed, denied or deferred holds nothing, so it is not undone. */
        if (status != FACET_OK || answer->verdict != FACET_VERDICT_GO)
            break;
        *ret_asked = i + 1;
        status = facet_merge_configuration(&merged->root, "", parts[i]->root, hook_at(run, i).name, run->error);
        if (status == FACET_ALREADY_EXISTS)
            status = facet_merge_configuration(&merged->root, find_conflicting_hook(run, parts, i), parts[i]->root,
                                               hook_at(run, i).name, run->error);
    }
    return status == FACET_OK && answer->verdict == FACET_VERDICT_GO ? check_merged(run, parts, merged) : status;
}

enum facet_status facet_lifecycle_create(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                         const struct facet_lifecycle_workload *workload,
                                         struct facet_workload **ret_workload,
                                         struct facet_lifecycle_answer *ret_answer, struct facet_error *error)
{
    struct facet_workload *parts[HOOKS_MAX] = {0}, *merged = NULL;
    struct facet_lifecycle_answer answer = {0};
    uint32_t asked = 0;
    struct run run;

    if (!ret_workload || !ret_answer)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_answer",
                                    "ret_workload, ret_answer: expected room for both results, not NULL");
    enum facet_status status = begin_run(hooks, count, workload, error, &run);
    if (status == FACET_OK)
        status = facet_workload_create(&merged, error);
    if (status != FACET_OK)
        return status;
    status = ask_all(&run, parts, merged, &answer, &asked);
    if (status != FACET_OK || answer.verdict != FACET_VERDICT_GO)
        undo_hooks(&run, asked);
    for (uint32_t i = 0; i < count; i++)
        facet_workload_destroy(parts[i]);
    if (status == FACET_OK && answer.verdict == FACET_VERDICT_GO) {
        answer = (struct facet_lifecycle_answer){0};
        *ret_workload = merged;
        merged = NULL;
    }
    facet_workload_destroy(merged);
    if (status == FACET_OK)
        *ret_answer = answer;
    return status;
}

enum facet_status facet_lifecycle_created(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                          const struct facet_lifecycle_workload *workload, struct facet_error *error)
{
    struct run run;
    enum facet_status status = begin_run(hooks, count, workload, error, &run);

    for (uint32_t i = 0; status == FACET_OK && i < count; i++) {
        const struct facet_lifecycle_hook hook = hook_at(&run, i);
        if (!hook.post_create)
            continue;
        forget_error(&run);
        status = hook.post_create(hook.context, &run.workload, error);
        if (status != FACET_OK) {
            name_failure(&run, hook.name, "post_create", status);
            undo_hooks(&run, count);
        }
    }
    return status;
}

/* --- ending ----------------------------------------------------------------------------------------------------- */

static enum facet_status ask_terminate(const struct run *run, uint32_t index, struct facet_lifecycle_answer *worst)
{
    const struct facet_lifecycle_hook hook = hook_at(run, index);
    struct facet_lifecycle_answer answer = {0};

    if (!hook.pre_terminate)
        return FACET_OK;
    forget_error(run);
    enum facet_status status = hook.pre_terminate(hook.context, &run->workload, &answer, run->error);
    if (status != FACET_OK)
        return name_failure(run, hook.name, "pre_terminate", status);
    if (answer.verdict != FACET_VERDICT_GO && answer.verdict != FACET_VERDICT_DEFER)
        return facet_error_argument(run->error, FACET_BAD_STATE, "verdict",
                                    "hook '%.80s' gave verdict %" PRIu32 " at the termination; expected go or defer",
                                    hook.name, answer.verdict);
    bool longer = worst->verdict == FACET_VERDICT_GO || answer.retry_ns > worst->retry_ns;
    if (answer.verdict == FACET_VERDICT_DEFER && longer) {
        *worst = answer;
        worst->hook = hook.name;
        worst->reason[sizeof worst->reason - 1] = '\0';
        facet_text_make_line(worst->reason);
    }
    return FACET_OK;
}

enum facet_status facet_lifecycle_terminate(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                            const struct facet_lifecycle_workload *workload,
                                            struct facet_lifecycle_answer *ret_answer, struct facet_error *error)
{
    struct facet_lifecycle_answer worst = {0};
    struct run run;
    enum facet_status status = begin_run(hooks, count, workload, error, &run);

    if (!ret_answer)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_answer",
                                    "ret_answer: expected room for an answer, not NULL");
    for (uint32_t i = count; status == FACET_OK && i-- > 0;)
        status = ask_terminate(&run, i, &worst);
    if (status == FACET_OK)
        *ret_answer = worst;
    return status;
}

enum facet_status facet_lifecycle_terminated(const struct facet_lifecycle_hook *const *hooks, uint32_t count,
                                             const struct facet_lifecycle_workload *workload, struct facet_error *error)
{
    struct run run;
    enum facet_status first = begin_run(hooks, count, workload, error, &run);

    if (first != FACET_OK)
        return first;
    for (uint32_t i = count; i-- > 0;) {
        const struct facet_lifecycle_hook hook = hook_at(&run, i);
        struct facet_error own = {0};
        enum facet_status status =
            hook.post_terminate ? hook.post_terminate(hook.context, &run.workload, &own) : FACET_OK;
        if (status == FACET_OK || first != FACET_OK)
            continue;
        first = status;
        if (error) {
            *error = own;
            name_failure(&run, hook.name, "post_terminate", status);
        }
    }
    return first;
}
