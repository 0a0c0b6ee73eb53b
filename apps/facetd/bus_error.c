/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the handler of SIGBUS. Never: does more in it than two system calls. */
#include "bus_error.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t page_size;

/* Maps an empty page over a page that its file lost. Any other fault ends the daemon as usual. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    void *page = (void *)((uintptr_t)info->si_addr & ~(page_size - 1));

    if (info->si_code != BUS_ADRERR ||
        mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL);
}

void bus_error_survive(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART};

    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
