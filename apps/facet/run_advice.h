/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warnings of `facet run` about a virtual GPU that its program cannot use, or does not.
 *
 * Owns: the warnings before the program starts and after it has ended, as interposers must not write to its output.
 * Never: refuses a command, since a program that needs no kernels (nvidia-smi) or brings its own libraries can run.
 */
#ifndef FACET_RUN_ADVICE_H
#define FACET_RUN_ADVICE_H

#include "client.h"
#include "command.h"
#include "limiter/owner.h"

/*
 * Warns, with the reason, of a vGPU on an NVIDIA or AMD GPU whose driver or runtime the provider could not use. `vgpu`
 * is the daemon's description.
 */
void run_advise_before(const struct command *self, struct client *client, const json_t *vgpu);

/*
 * Warns of a vGPU on an NVIDIA or AMD GPU in which nothing was ever charged, and an allocation was refused since
 * `before`: its quota is too small for the context that precedes a program's first allocation.
 */
void run_advise_after(const struct command *self, const json_t *vgpu, const struct facet_usage_totals *before);

/* Warns of a command that starts programs outside the vGPU (run_launcher.h). False: it is no such command. */
bool run_advise_launcher(const struct command *self, char *const *command);

/* Warns of a vGPU that no program ever entered, in this run or an earlier one. */
void run_advise_unused(const struct command *self, const json_t *vgpu);

#endif
