/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the ends of ends_role.h in CUDA's words. Never: includes anything of Facet. */
#include "ends_role.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static bool launch_one(void)
{
    CUfunction function = client_function(ENDS_KERNEL);

    return function && client_launch(function, ENDS_BLOCKS, NULL) == CUDA_SUCCESS;
}

static bool in_context(bool waits)
{
    CUcontext context;

    return client.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS &&
           client.cuModuleLoadData(&client.module, CLIENT_IMAGE) == CUDA_SUCCESS && launch_one() &&
           (!waits || client.cuCtxSynchronize() == CUDA_SUCCESS) && client.cuCtxDestroy_v2(context) == CUDA_SUCCESS;
}

static bool in_primary(void)
{
    return client.cuDevicePrimaryCtxRetain(&client.context, 0) == CUDA_SUCCESS &&
           client.cuCtxSetCurrent(client.context) == CUDA_SUCCESS &&
           client.cuModuleLoadData(&client.module, CLIENT_IMAGE) == CUDA_SUCCESS && launch_one() &&
           client.cuCtxSynchronize() == CUDA_SUCCESS && client.cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS;
}

static bool do_once(const char *name)
{
    if (strcmp(name, "resets") == 0)
        return in_primary();
    if (strcmp(name, "contexts") == 0 || strcmp(name, "unwaited") == 0)
        return in_context(name[0] == 'c');
    return launch_one();
}

int ends_role(const char *name, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!do_once(name))
            return 1;
    if (strcmp(name, "worker") == 0)
        _exit(client.cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1);
    if (strcmp(name, "killed") == 0) {
        usleep(ENDS_KERNEL_US * count * 19 / 20);
        raise(SIGKILL);
    }
    return 0;
}
