/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warnings of `facet run` about a virtual GPU that its program cannot use, or does not.
 *
 * Owns: the warnings before the program starts and after it has ended; interposers write nothing to its output.
 * Never: refuses: a program that needs no kernels (nvidia-smi), or brings libraries of its own, runs in any case.
 */
#ifndef FACET_RUN_ADVICE_H
#define FACET_RUN_ADVICE_H

#include "client.h"
#include "command.h"
#include "limiter/owner.h"

/*
 * A vGPU as the daemon describes it, of an NVIDIA or AMD GPU whose driver or runtime the provider could not use; why.
 */
void run_advise_before(const struct command *self, struct client *client, const json_t *vgpu);

/*
 * A vGPU of such a GPU in which nothing was ever charged, and a request was refused since `before`: its quota is below
 * the memory that the GPU takes for a program before the first allocation.
 */
void run_advise_after(const struct command *self, const json_t *vgpu, const struct facet_usage_totals *before);

/* A command that is known to start programs out of the virtual GPU's reach (run_launcher.h); false: it is none. */
bool run_advise_launcher(const struct command *self, char *const *command);

/* A vGPU that no program ever entered, neither this run's nor another's. */
void run_advise_unused(const struct command *self, const json_t *vgpu);

#endif
