/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the child that runs a provider. Never: lets it touch the caller's terminal, signals or process group. */
#include "device/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/loader.h"

#define DEADLINE_DEFAULT_NS (10 * FACET_NS_PER_S)

static const char *const stage_texts[] = {
    [FACET_LOADER_LOAD] = "loading",         [FACET_LOADER_ENTER] = "entering",        [FACET_LOADER_OPEN] = "opening",
    [FACET_LOADER_LIST] = "listing devices", [FACET_LOADER_HEALTH] = "telling health", [FACET_LOADER_CLOSE] = "closing",
};

enum { STAGE_TEXTS = sizeof stage_texts / sizeof stage_texts[0] };

/* The caller's handlers must not run here: they would act on the caller's files and memory maps a second time. */
static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* refused for SIGKILL, SIGSTOP and those of the C library, which is as it should be */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A provider never prints; one that does anyway would spoil the output of the command that lists it. */
static void silence(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
}

static _Noreturn void run_child(const char *path, uint16_t abi_minor, struct facet_provider_answer *answer, int done_fd)
{
    const struct rlimit no_core = {0};

    reset_signals();
    silence();
    setpgid(0, 0); /* a group of its own, so that helpers it starts can be ended with it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);

    facet_loader_run(path, abi_minor, answer);
    _exit(write(done_fd, "", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Forks the child; `ret_done_fd` is the end of the pipe that tells when it is done. */
static enum facet_status start_child(const char *path, uint16_t abi_minor, struct facet_provider_answer *answer,
                                     pid_t *ret_pid, int *ret_done_fd, struct facet_error *error)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "no pipe to ask provider %s", path);
    FACET_CLEANUP_FD int read_end = ends[0];
    FACET_CLEANUP_FD int write_end = ends[1];

    pid_t pid = fork();
    if (pid < 0)
        return facet_error_errno(error, errno, "no process to ask provider %s", path);
    if (pid == 0)
        run_child(path, abi_minor, answer, write_end);
    *ret_pid = pid;
    *ret_done_fd = FACET_TAKE_FD(read_end);
    return FACET_OK;
}

enum facet_status facet_probe_start(const char *path, const struct facet_device_table_options *options,
                                    struct facet_probe *ret_probe, struct facet_error *error)
{
    uint16_t abi_minor = options->abi_minor ? options->abi_minor : FACET_PROVIDER_ABI_MINOR;
    struct facet_probe probe = {.limit_ns = options->deadline_ns ? options->deadline_ns : DEADLINE_DEFAULT_NS};

    probe.answer = mmap(NULL, sizeof *probe.answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (probe.answer == MAP_FAILED)
        return facet_error_errno(error, errno, "no memory to ask provider %s", path);
    probe.deadline_ns = facet_clock_now_ns() + probe.limit_ns;
    enum facet_status status = start_child(path, abi_minor, probe.answer, &probe.pid, &probe.done_fd, error);
    if (status != FACET_OK) {
        munmap(probe.answer, sizeof *probe.answer);
        return status;
    }
    *ret_probe = probe;
    return FACET_OK;
}

/* How a child came to its end. */
enum ending {
    ENDING_ANSWERED,
    ENDING_DIED,
    ENDING_HUNG,
};

static enum ending wait_for_answer(const struct facet_probe *probe)
{
    struct pollfd done = {.fd = probe->done_fd, .events = POLLIN};
    char byte;

    for (;;) {
        uint64_t now = facet_clock_now_ns();
        const struct timespec left = facet_ns_timespec(probe->deadline_ns > now ? probe->deadline_ns - now : 0);
        int ready = ppoll(&done, 1, &left, NULL);

        if (ready == 0)
            return ENDING_HUNG;
        if (ready > 0)
            return read(probe->done_fd, &byte, 1) == 1 ? ENDING_ANSWERED : ENDING_DIED;
        if (errno != EINTR)
            return ENDING_HUNG;
    }
}

/* The child's wait status; -1 when the host program has SIGCHLD ignored or waited for the child itself. */
static int reap(struct facet_probe *probe)
{
    int status;
    pid_t waited;

    do
        waited = waitpid(probe->pid, &status, 0);
    while (waited < 0 && errno == EINTR);
    bool known = waited == probe->pid;
    probe->pid = 0;
    return known ? status : -1;
}

static void kill_child(const struct facet_probe *probe)
{
    kill(-probe->pid, SIGKILL); /* the group, which the child may not have made yet */
    kill(probe->pid, SIGKILL);
}

static const char *stage_text(const struct facet_provider_answer *answer)
{
    uint32_t stage = atomic_load_explicit(&answer->stage, memory_order_acquire);

    return stage < STAGE_TEXTS ? stage_texts[stage] : "ending";
}

static void describe_death(int status, const char *stage, struct facet_error *ret_reason)
{
    if (status >= 0 && WIFSIGNALED(status)) {
        const char *name = sigdescr_np(WTERMSIG(status));
        facet_error_set(ret_reason, FACET_INTERNAL, "crashed with signal %d (%s) while %s", WTERMSIG(status),
                        name ? name : "unknown", stage);
    } else if (status >= 0 && WIFEXITED(status)) {
        facet_error_set(ret_reason, FACET_INTERNAL, "called exit(%d) while %s", WEXITSTATUS(status), stage);
    } else {
        facet_error_set(ret_reason, FACET_INTERNAL, "ended its process while %s", stage);
    }
}

/* Copies text that a provider wrote: terminated, and nothing in it that could disturb a terminal or JSON. */
static void copy_text(char *target, size_t size, const char *source)
{
    size_t i;

    for (i = 0; i + 1 < size && source[i]; i++)
        target[i] = source[i] < 0x20 || source[i] > 0x7e ? '?' : source[i];
    target[i] = '\0';
}

static bool is_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return length < size;
}

/* The name of the first field that breaks the rules of provider.h; NULL when all is well. */
static const char *bad_field(const struct facet_device_info *info, uint32_t index)
{
    if (info->index != index)
        return "index";
    if (!info->uuid[0] || !is_text(info->uuid, sizeof info->uuid))
        return "uuid";
    if (!info->name[0] || !is_text(info->name, sizeof info->name))
        return "name";
    if (!is_text(info->vendor, sizeof info->vendor))
        return "vendor";
    if (!is_text(info->driver_version, sizeof info->driver_version))
        return "driver_version";
    if (!is_text(info->address, sizeof info->address))
        return "address";
    if (!is_text(info->pci_address, sizeof info->pci_address))
        return "pci_address";
    if (info->kind > FACET_DEVICE_ACCELERATOR)
        return "kind";
    return NULL;
}

static enum facet_status check_devices(const struct facet_provider_answer *answer, struct facet_error *error)
{
    if (answer->device_count > FACET_PROVIDER_DEVICES)
        return facet_error_set(error, FACET_CORRUPT, "lists %" PRIu32 " devices, expected at most %u",
                               answer->device_count, FACET_PROVIDER_DEVICES);
    for (uint32_t i = 0; i < answer->device_count; i++) {
        const char *field = bad_field(&answer->infos[i], i);
        if (field)
            return facet_error_set(error, FACET_CORRUPT, "describes its device %" PRIu32 " with a bad %s", i, field);
    }
    return FACET_OK;
}

static void accept(const struct facet_provider_answer *answer, struct facet_provider_record *record)
{
    record->state = FACET_PROVIDER_LOADED;
    record->abi_major = answer->abi_major;
    record->abi_minor = answer->abi_minor;
    record->traits = answer->traits;
    record->device_count = answer->device_count;
    copy_text(record->version, sizeof record->version, answer->version);
    copy_text(record->description, sizeof record->description, answer->description);
}

/* "opencl" of "/usr/lib/facet/facet-provider-opencl.so": what to call a provider that could not say its name. */
static void name_from_file(struct facet_provider_record *record)
{
    static const char prefix[] = "facet-provider-", suffix[] = ".so";
    const char *slash = strrchr(record->path, '/');
    const char *name = slash ? slash + 1 : record->path;

    if (strncmp(name, prefix, strlen(prefix)) == 0)
        name += strlen(prefix);
    copy_text(record->name, sizeof record->name, name);
    char *end = strstr(record->name, suffix);
    if (end && end != record->name)
        *end = '\0';
}

void facet_probe_finish(struct facet_probe *probe, struct facet_provider_record *record)
{
    const struct facet_provider_answer *answer = probe->answer;
    struct facet_error *reason = &record->reason;
    enum ending ending = wait_for_answer(probe);

    if (ending == ENDING_HUNG)
        kill_child(probe);
    int status = reap(probe);

    record->state = FACET_PROVIDER_REFUSED;
    if (answer->name[0])
        copy_text(record->name, sizeof record->name, answer->name);
    else
        name_from_file(record);
    if (ending == ENDING_HUNG) {
        facet_error_set(reason, FACET_TIMEOUT, "gave no answer within %" PRIu64 " ms while %s",
                        probe->limit_ns / FACET_NS_PER_MS, stage_text(answer));
    } else if (ending == ENDING_DIED) {
        describe_death(status, stage_text(answer), reason);
    } else if (atomic_load_explicit(&answer->stage, memory_order_acquire) != FACET_LOADER_DONE) {
        reason->status = answer->error.status;
        copy_text(reason->message, sizeof reason->message, answer->error.message);
    } else if (check_devices(answer, reason) == FACET_OK) {
        accept(answer, record);
    }
}

void facet_probe_device(const struct facet_probe *probe, uint32_t index, struct facet_device_record *ret_device)
{
    ret_device->info = probe->answer->infos[index];
    ret_device->info.size = sizeof ret_device->info;
    ret_device->health = probe->answer->health[index];
}

void facet_probe_close(struct facet_probe *probe)
{
    if (!probe->answer)
        return;
    if (probe->pid > 0) {
        kill_child(probe);
        reap(probe);
    }
    close(probe->done_fd);
    munmap(probe->answer, sizeof *probe->answer);
    *probe = (struct facet_probe){0};
}
