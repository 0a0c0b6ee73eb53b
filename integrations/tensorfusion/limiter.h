/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the two files of the limiter share: TensorFusion's workers, and their counterparts in Facet.
 *
 * Owns: the structs, and entering a call under the limiter's lock (see facade.h).
 * Never: keeps a list of a worker's processes: Facet's limiter has it.
 */
#ifndef FACET_TENSORFUSION_LIMITER_H
#define FACET_TENSORFUSION_LIMITER_H

#include <facet/limiter.h>

#include "facade.h"
#include "limiter_abi.h"

#define TF_SPACE_SIZE 64  /* Kubernetes: a label */
#define TF_POD_SIZE   254 /* Kubernetes: a name */

/* The part of TensorFusion's worker on one device. Each part is a worker of its own in Facet's limiter. */
struct tf_part {
    uint32_t index; /* the hypervisor's number of the device */
    char uuid[UUID_STRING_LENGTH];
    char id[FACET_NAME_SIZE];
    struct facet_limits limits;
    uint64_t charged_bytes; /* what LimiterSetPodMemoryUsed() charged to this process's slot of the segment */
    bool created;           /* this process created the part; false: it existed already and was adopted */
};

struct tf_worker {
    struct tf_worker *next;
    char space[TF_SPACE_SIZE];
    char pod[TF_POD_SIZE];
    size_t count;
    struct tf_part parts[];
};

/*
 * Takes the limiter's lock; called after the arguments were checked. Before LimiterInit(), which names the folder, it
 * fails and logs the reason.
 */
AccelResult tf_enter(struct facade_call *call);
/* Like tf_enter(), for calls that change the table of workers. */
AccelResult tf_enter_writing(struct facade_call *call);

struct facet_limiter *tf_limiter(void);
struct tf_worker *tf_workers(void);
struct tf_worker *tf_find_worker(const char *space, const char *pod);

#endif
