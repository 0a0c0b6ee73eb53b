/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `snapshot`: moving whole processes off their devices and back, by the driver's checkpoints (driver
 * 570).
 * Never: leaves some of several processes moved: if one fails, the others are moved back.
 *
 * A process's device memory goes to its own host memory, and stays there. Its next call of the driver blocks until it
 * is resumed. Workers of this provider are not processes, and have no snapshots.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "cuda.h"

#define LOCK_MS 10000u /* longest wait for the driver's lock of a process, whose launches it waits for */

static enum facet_status check_processes(const struct cuda_driver *driver, const int32_t *pids, uint32_t count,
                                         struct facet_error *error)
{
    if (!cuda_driver_checkpoints(driver))
        return facet_kit_fail(error, FACET_UNSUPPORTED,
                              "libcuda.so.1: expected the checkpoints of driver 570 or newer");
    if (!pids && count)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "pids: expected %" PRIu32 " of them, not NULL", count);
    for (uint32_t i = 0; i < count; i++)
        if (pids[i] == getpid())
            return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                                  "pid %" PRId32 ": expected a process other than the caller", pids[i]);
    return FACET_OK;
}

/* Checks that the process is in the state with which the operation begins. */
static enum facet_status expect_state(const struct cuda_driver *driver, int32_t pid, CUprocessState wanted,
                                      struct facet_error *error)
{
    CUprocessState state = CU_PROCESS_STATE_FAILED;

    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return facet_kit_fail(error, FACET_NOT_FOUND, "pid %" PRId32 ": there is no such process", pid);
    CUresult result = driver->cuCheckpointProcessGetState(pid, &state);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return facet_kit_fail(error, FACET_NOT_FOUND, "pid %" PRId32 ": expected a process that uses a device", pid);
    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, error, "cuCheckpointProcessGetState", result);
    if (state == wanted)
        return FACET_OK;
    return facet_kit_fail(error, FACET_BAD_STATE, "pid %" PRId32 ": the driver has it in state %d, expected %d", pid,
                          state, wanted);
}

static enum facet_status expect_states(const struct cuda_driver *driver, const int32_t *pids, uint32_t count,
                                       CUprocessState wanted, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < count && status == FACET_OK; i++)
        status = expect_state(driver, pids[i], wanted, error);
    return status;
}

static enum facet_status suspend_process(const struct cuda_driver *driver, int32_t pid, struct facet_error *error)
{
    CUcheckpointLockArgs lock = {.timeoutMs = LOCK_MS};
    CUresult result = driver->cuCheckpointProcessLock(pid, &lock);

    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, error, "cuCheckpointProcessLock", result);
    result = driver->cuCheckpointProcessCheckpoint(pid, NULL);
    if (result == CUDA_SUCCESS)
        return FACET_OK;
    driver->cuCheckpointProcessUnlock(pid, NULL);
    return cuda_driver_fail(driver, error, "cuCheckpointProcessCheckpoint", result);
}

/* If the process cannot be restored, it stays moved; if it cannot be unlocked, it is moved again. */
static enum facet_status resume_process(const struct cuda_driver *driver, int32_t pid, struct facet_error *error)
{
    CUresult result = driver->cuCheckpointProcessRestore(pid, NULL);

    if (result != CUDA_SUCCESS)
        return cuda_driver_fail(driver, error, "cuCheckpointProcessRestore", result);
    result = driver->cuCheckpointProcessUnlock(pid, NULL);
    if (result == CUDA_SUCCESS)
        return FACET_OK;
    driver->cuCheckpointProcessCheckpoint(pid, NULL);
    return cuda_driver_fail(driver, error, "cuCheckpointProcessUnlock", result);
}

typedef enum facet_status (*move_func)(const struct cuda_driver *driver, int32_t pid, struct facet_error *error);

/* Moves all processes, or none. */
static enum facet_status move_processes(const struct cuda_driver *driver, const int32_t *pids, uint32_t count,
                                        move_func move, move_func undo, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    uint32_t done = 0;

    while (done < count && (status = move(driver, pids[done], error)) == FACET_OK)
        done++;
    while (status != FACET_OK && done > 0)
        undo(driver, pids[--done], NULL);
    return status;
}

static enum facet_status snapshot_processes(struct facet_provider_instance *instance, const int32_t *pids,
                                            uint32_t count, struct facet_error *error)
{
    const struct cuda_driver *driver = &instance->driver;
    enum facet_status status = check_processes(driver, pids, count, error);

    if (status == FACET_OK)
        status = expect_states(driver, pids, count, CU_PROCESS_STATE_RUNNING, error);
    return status == FACET_OK ? move_processes(driver, pids, count, suspend_process, resume_process, error) : status;
}

static enum facet_status resume_processes(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                          struct facet_error *error)
{
    const struct cuda_driver *driver = &instance->driver;
    enum facet_status status = check_processes(driver, pids, count, error);

    if (status == FACET_OK)
        status = expect_states(driver, pids, count, CU_PROCESS_STATE_CHECKPOINTED, error);
    return status == FACET_OK ? move_processes(driver, pids, count, resume_process, suspend_process, error) : status;
}

const struct facet_snapshot_ops cuda_snapshot_ops = {
    .size = sizeof cuda_snapshot_ops,
    .snapshot_processes = snapshot_processes,
    .resume_processes = resume_processes,
};
