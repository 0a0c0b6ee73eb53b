/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the tenant: finding the command, its environment, its signals, its end.
 *
 * Owns: the child process between fork and its end.
 * Never: touches the command's output, or returns before the command has ended.
 */
#ifndef FACET_LAUNCH_H
#define FACET_LAUNCH_H

#include <jansson.h>
#include <stdint.h>

#include <facet/error.h>

#include "launch_cuda.h"
#include "launch_hip.h"

#define LAUNCH_MAX_VGPUS 16
#define LAUNCH_DIRS_SIZE (LAUNCH_MAX_VGPUS * 1024) /* the most that the interposers read */

struct launch_outcome {
    int exit_status; /* the command's own; 128 + n when signal n killed it */
    uint64_t wall_ns;
};

/* Whether `name` can be run, searched for as execvp() does: FACET_NOT_FOUND (a shell's 127), FACET_PERMISSION (126). */
enum facet_status launch_check(const char *name, struct facet_error *error);

/* The surroundings of a tenant. The caller keeps what the members point to. */
struct launch_place {
    const char *vgpu_dirs;          /* the folders of the vGPUs' segments, with ':' between them */
    const char *layer;              /* the OpenCL layer */
    const struct launch_cuda *cuda; /* how CUDA programs enter */
    const struct launch_hip *hip;   /* how HIP programs enter */
    const json_t *environment;      /* the variables of the device's provider: an object of texts; NULL: none */
};

/*
 * Ignores SIGXFSZ: a write beyond the file size limit (ulimit -f) then fails instead of ending this process. The
 * command gets the signal's original setting.
 */
void launch_ignore_file_size_signal(void);

/*
 * Notes which descriptors this process was started with: the command gets only these, so this is called before others
 * are opened. Also ignores SIGPIPE, because this process has to clean up after the command even when its output is
 * closed. The command gets the signal's original setting.
 */
void launch_prepare(void);

/*
 * Runs `command` inside the vGPU and waits for its end. Signals sent to this process alone are passed on; those of the
 * terminal reach the command by themselves.
 */
enum facet_status launch_run(char *const *command, const struct launch_place *place, struct launch_outcome *ret_outcome,
                             struct facet_error *error);

#endif
