/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the ends of ends_role.h in HIP's words: what has contexts there is the device. Never: includes anything of
 * Facet. */
#include "tests/integration/cuda/ends_role.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static bool launch_one(void)
{
    hipFunction_t function = client_function(ENDS_KERNEL);

    return function && client_launch(function, ENDS_BLOCKS, NULL) == hipSuccess;
}

static bool until_reset(bool waits)
{
    return client_load() && launch_one() && (!waits || client.hipDeviceSynchronize() == hipSuccess) &&
           client.hipDeviceReset() == hipSuccess;
}

static bool do_once(const char *name)
{
    if (strcmp(name, "worker") == 0 || strcmp(name, "killed") == 0)
        return launch_one();
    return until_reset(strcmp(name, "unwaited") != 0);
}

int ends_role(const char *name, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!do_once(name))
            return 1;
    if (strcmp(name, "worker") == 0)
        _exit(client.hipDeviceSynchronize() == hipSuccess ? 0 : 1);
    if (strcmp(name, "killed") == 0) {
        usleep(ENDS_KERNEL_US * count * 19 / 20);
        raise(SIGKILL);
    }
    return 0;
}
