/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the fake machine of the tests of the management library. Never: leaves a file or a child behind. */
#include "nvml_machine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../scratch.h"

static char path[64];
static int file;

_Noreturn static void abort_with_error(const char *what)
{
    perror(what);
    abort();
}

void test_machine_make(unsigned devices, const char *memory)
{
    char count[16];

    file = scratch_file(path, sizeof path);
    if (file < 0)
        abort_with_error("memfd");
    snprintf(count, sizeof count, "%u", devices);
    setenv("FAKE_CUDA_STATE", path, 1);
    setenv("FAKE_CUDA_DEVICES", count, 1);
    setenv("FAKE_CUDA_MEMORY", memory, 1);
}

void test_machine_remove(void)
{
    close(file);
}

void test_machine_uuid(uint32_t device, char text[TEST_UUID_SIZE])
{
    const char *uuid = fake_state()->devices[device].uuid;
    int at = snprintf(text, TEST_UUID_SIZE, "GPU-");

    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, TEST_UUID_SIZE - (size_t)at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                       (unsigned char)uuid[i]);
}

pid_t test_machine_child(void (*body)(void *context, int ready), void *context)
{
    int ready[2];
    char byte;

    if (pipe(ready) != 0)
        abort_with_error("pipe");
    pid_t pid = fork();
    if (pid < 0)
        abort_with_error("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        body(context, ready[1]);
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        abort_with_error("a child that ended before it was ready");
    close(ready[0]);
    return pid;
}

struct holding {
    uint32_t device;
    uint64_t bytes;
};

static void hold_memory(void *context, int ready)
{
    const struct holding *holding = context;

    if (fake_device_reserve(holding->device, FAKE_PLAIN, holding->bytes) && write(ready, "", 1) == 1)
        for (;;)
            pause();
}

pid_t test_machine_neighbour(uint32_t device, uint64_t bytes)
{
    struct holding holding = {device, bytes};

    return test_machine_child(hold_memory, &holding);
}

void test_machine_dismiss(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
