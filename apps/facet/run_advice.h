/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `facet run` says, unasked, of a virtual GPU that its program cannot use, or does not.
 *
 * Owns: the warnings before the program starts and after it has ended; interposers leave its output alone.
 * Never: refuses: a program that needs no kernels (nvidia-smi), or brings libraries of its own, runs all the same.
 */
#ifndef FACET_RUN_ADVICE_H
#define FACET_RUN_ADVICE_H

#include "client.h"
#include "command.h"
#include "limiter/owner.h"

/* A vGPU as the daemon tells it, of an NVIDIA or AMD GPU whose driver or runtime the provider could not use; why. */
void run_advise_before(const struct command *self, struct client *client, const json_t *vgpu);

/*
 * A vGPU of such a GPU in which nothing was ever charged, and something was refused since `before`: its quota is below
 * what the GPU takes for a program before that allocates anything.
 */
void run_advise_after(const struct command *self, const json_t *vgpu, const struct facet_usage_totals *before);

/* A command that is known to start programs where the virtual GPU does not reach (run_launcher.h); false: it is none.
 */
bool run_advise_launcher(const struct command *self, char *const *command);

/* A vGPU that no program ever entered, neither this run's nor another's. */
void run_advise_unused(const struct command *self, const json_t *vgpu);

#endif
