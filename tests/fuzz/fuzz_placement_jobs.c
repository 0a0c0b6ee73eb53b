/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: fuzzing facet_job_list_parse(): accepted jobs are within their bounds; a refusal names the list and says what
 * was expected. */
#include <facet/placement.h>

#include "fuzz.h"

static void check_job(const struct facet_fleet_job *job)
{
    FUZZ_ASSERT(job->size == sizeof *job && job->request.size == sizeof job->request);
    FUZZ_ASSERT(job->name && job->request.gpu_spec);
    FUZZ_ASSERT(job->request.num_gpu <= FACET_FLEET_GPUS && job->request.cpu_milli <= FACET_FLEET_CPU);
    FUZZ_ASSERT(job->request.num_gpu == 0 || (job->request.gpu_milli >= 1 && job->request.gpu_milli <= 1000));
    FUZZ_ASSERT(!job->timed || job->deletion_s >= job->creation_s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facet_job_list *list = NULL;
    struct facet_error error = {0};
    size_t count = 0;

    if (facet_job_list_parse((const char *)data, size, "list", &list, &error) != FACET_OK) {
        FUZZ_ASSERT(!list && error.status == FACET_INVALID_ARGUMENT);
        FUZZ_ASSERT(strncmp(error.message, "list", 4) == 0 && strstr(error.message, "expected"));
        return 0;
    }
    const struct facet_fleet_job *jobs = facet_job_list_items(list, &count);

    FUZZ_ASSERT(count > 0);
    for (size_t i = 0; i < count; i++)
        check_job(&jobs[i]);
    facet_job_list_free(list);
    return 0;
}
