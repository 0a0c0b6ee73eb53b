/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: checkpoints of processes. A process goes from running through locked to checkpointed, and the same way back.
 * Never: copies memory: a checkpointed process holds no device memory, and its next call waits.
 */
#include "vendor/cuda/checkpoint.h"

#include "fake.h"

/* The slot of a live process; NULL: the process has none, because it has never used a device. */
static struct fake_process *find_process(int pid)
{
    struct fake_state *machine = fake_state();

    for (uint32_t i = 0; i < FAKE_PROCESSES; i++) {
        if (pid > 0 && atomic_load(&machine->processes[i].pid) == (uint32_t)pid && fake_slot_is_live(i))
            return &machine->processes[i];
    }
    return NULL;
}

/* Moves a process from one state to another; returns the error if it is not in the first. */
static CUresult step_process(int pid, uint32_t from, uint32_t to)
{
    struct fake_process *process = find_process(pid);

    if (!process)
        return CUDA_ERROR_INVALID_VALUE;
    return atomic_compare_exchange_strong(&process->checkpoint, &from, to) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    struct fake_process *process = find_process(pid);

    if (!process || !state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = (CUprocessState)atomic_load(&process->checkpoint);
    return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments)
{
    if (arguments && arguments->reserved0)
        return CUDA_ERROR_INVALID_VALUE;
    return step_process(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *arguments)
{
    return step_process(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *arguments)
{
    struct fake_process *process = find_process(pid);

    for (uint32_t i = 0; process && i < fake_state()->device_count; i++) {
        if (fake_process_bytes(process, i) > fake_state()->devices[i].memory_bytes - fake_used(i))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return step_process(pid, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *arguments)
{
    return step_process(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    if (!tid || !find_process(pid))
        return CUDA_ERROR_INVALID_VALUE;
    *tid = pid;
    return CUDA_SUCCESS;
}
