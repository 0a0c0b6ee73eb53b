/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what nvml_machine.h says. Never: leaves a file or a child behind. */
#include "nvml_machine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

_Noreturn static void die(const char *what)
{
    perror(what);
    abort();
}

void test_machine_make(unsigned devices, const char *memory)
{
    char count[16];

    snprintf(path, sizeof path, "%s/facet-nvml-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        die(path);
    close(fd);
    snprintf(count, sizeof count, "%u", devices);
    setenv("FAKE_CUDA_STATE", path, 1);
    setenv("FAKE_CUDA_DEVICES", count, 1);
    setenv("FAKE_CUDA_MEMORY", memory, 1);
}

void test_machine_remove(void)
{
    unlink(path);
}

_Noreturn static void hold(uint32_t device, uint64_t bytes, int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!fake_take(device, FAKE_PLAIN, bytes) || write(ready, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

pid_t test_machine_neighbour(uint32_t device, uint64_t bytes)
{
    int ready[2];
    char byte;

    if (pipe(ready) != 0)
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        hold(device, bytes, ready[1]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        die("neighbour");
    close(ready[0]);
    return pid;
}

void test_machine_dismiss(pid_t neighbour)
{
    kill(neighbour, SIGKILL);
    waitpid(neighbour, NULL, 0);
}
