/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the file that all processes share. Never: frees a live process's memory, or keeps that of a dead process. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vendor/cuda/checkpoint.h"

#define DEFAULT_COPY (UINT64_C(50) * 1000 * 1000 * 1000)
#define DEFAULT_HOST (UINT64_C(1024) << 30)

static struct fake_state *state;
static struct fake_process *process;
static int state_fd = -1;
static _Atomic pid_t owner_pid; /* 0 in a child that has not called join_state() yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

_Noreturn static void abort_with_error(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", fake_model.prefix, what, strerror(errno));
    abort();
}

static uint64_t bytes_of(const char *text, uint64_t default_value)
{
    char *end;
    uint64_t value = text && *text ? strtoull(text, &end, 10) : 0;

    if (!value)
        return default_value;
    if (*end == 'G')
        return value << 30;
    return *end == 'M' ? value << 20 : *end == 'K' ? value << 10 : value;
}

/* The value of a variable with this machine's prefix: "MEMORY" is FAKE_CUDA_MEMORY, or FAKE_HIP_MEMORY. */
static const char *machine_variable(const char *name)
{
    char whole[64];

    snprintf(whole, sizeof whole, "%s%s", fake_model.prefix, name);
    return getenv(whole);
}

static uint32_t variable_number(const char *name, uint32_t default_value, uint32_t most)
{
    uint64_t value = bytes_of(machine_variable(name), default_value);
    return value > most ? most : (uint32_t)value;
}

static void describe_device(struct fake_device *device, uint32_t index, uint64_t memory)
{
    device->memory_bytes = memory;
    device->units = variable_number("UNITS", fake_model.units, 1024);
    memset(device->uuid, 0, sizeof device->uuid);
    fake_model.describe(device, index);
}

static void make_state(struct fake_state *made)
{
    const char *memory = machine_variable("MEMORY");
    uint64_t device_bytes = fake_model.memory_bytes;

    made->size = sizeof *made;
    made->device_count = variable_number("DEVICES", fake_model.devices, FAKE_DEVICES);
    made->driver_version = variable_number("VERSION", fake_model.version, 99999999);
    made->context_bytes = bytes_of(machine_variable("CONTEXT"), fake_model.context_bytes);
    made->code_bytes = bytes_of(machine_variable("CODE"), fake_model.code_bytes);
    made->copy_bytes_s = bytes_of(machine_variable("COPY"), DEFAULT_COPY);
    made->large_delay_ns = bytes_of(machine_variable("LINGER"), 0);
    made->free_delay_ns = bytes_of(machine_variable("LATE"), 0);
    made->host_bytes = bytes_of(machine_variable("HOST"), DEFAULT_HOST);
    made->assumes_live = variable_number("TRUST", 0, 1);
    for (uint32_t i = 0; i < made->device_count; i++) {
        made->management.mig[i].mode = made->management.mig[i].pending = variable_number("MIG", 0, 1);
        device_bytes = bytes_of(memory, device_bytes);
        describe_device(&made->devices[i], i, device_bytes);
        memory = memory ? strchr(memory, ',') : NULL;
        memory = memory ? memory + 1 : NULL;
    }
    atomic_store(&made->magic, fake_model.magic);
}

static bool set_lock(int command, short type, off_t start, off_t length)
{
    struct flock request = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};

    while (fcntl(state_fd, command, &request) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Whether another open file description has locked the slot's byte: then its process lives. */
bool fake_slot_is_live(uint32_t slot)
{
    struct flock request = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 + slot, .l_len = 1};

    if (state->assumes_live || process == &state->processes[slot])
        return true;
    return fcntl(state_fd, F_OFD_GETLK, &request) == 0 && request.l_type != F_UNLCK;
}

static void clear_process(struct fake_process *slot)
{
    atomic_store(&slot->checkpoint, 0);
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        for (uint32_t kind = 0; kind < FAKE_KINDS; kind++)
            atomic_store(&slot->devices[i].bytes[kind], 0);
        atomic_store(&slot->devices[i].slabs, 0);
        atomic_store(&slot->devices[i].slab_charged, 0);
        atomic_store(&slot->devices[i].busy_ns, 0);
        for (uint32_t piece = 0; piece < FAKE_PIECES; piece++)
            atomic_store(&slot->devices[i].pieces[piece].end_ns, 0);
        for (uint32_t tally = 0; tally < FAKE_TALLIES; tally++)
            atomic_store(&slot->devices[i].tallies[tally].launches, 0);
    }
    atomic_store(&slot->pinned, 0);
    atomic_store(&slot->pid, 0);
}

static struct fake_process *claim_process(void)
{
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++) {
        if (!set_lock(F_OFD_SETLK, F_WRLCK, 1 + (off_t)i, 1))
            continue;
        clear_process(&state->processes[i]);
        atomic_store(&state->processes[i].pid, (uint32_t)getpid() + (uint32_t)bytes_of(machine_variable("PIDS"), 0));
        return &state->processes[i];
    }
    errno = EUSERS;
    abort_with_error("every slot for a process is taken");
}

static int open_state(void)
{
    const char *path = machine_variable("STATE");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : memfd_create("fake-machine", MFD_CLOEXEC);

    if (fd < 0)
        abort_with_error(path ? path : "cannot make a file for the state");
    return fd;
}

/* The slot is the parent's; the child's next call joins anew. */
static void state_forked(void)
{
    owner_pid = 0;
    pthread_mutex_init(&lock, NULL);
}

/* Registered at load: a handler that the first call registers would miss a fork during that call. */
__attribute__((constructor)) static void handle_fork(void)
{
    pthread_atfork(NULL, NULL, state_forked);
}

static void join_state(void)
{
    if (state) {
        munmap(state, sizeof *state);
        close(state_fd);
    }
    process = NULL;
    state_fd = open_state();
    if (!set_lock(F_OFD_SETLKW, F_WRLCK, 0, 1))
        abort_with_error("cannot lock the state");
    if (ftruncate(state_fd, sizeof *state) != 0)
        abort_with_error("cannot set the size of the state");
    void *mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, state_fd, 0);
    if (mapped == MAP_FAILED)
        abort_with_error("cannot map the state");
    state = mapped;
    if (atomic_load(&state->magic) != fake_model.magic)
        make_state(state);
    set_lock(F_OFD_SETLK, F_UNLCK, 0, 1);
    owner_pid = getpid();
}

struct fake_state *fake_state(void)
{
    static _Thread_local pid_t seen;

    if (seen && seen == owner_pid)
        return state;
    pthread_mutex_lock(&lock);
    if (!state || owner_pid != getpid())
        join_state();
    seen = owner_pid;
    pthread_mutex_unlock(&lock);
    return state;
}

/* Claims a slot. Only a process that takes memory or runs work has one, not a process that only reads. */
struct fake_process *fake_process(void)
{
    fake_state();
    if (process)
        return process;
    pthread_mutex_lock(&lock);
    if (!process)
        process = claim_process();
    pthread_mutex_unlock(&lock);
    return process;
}

void fake_lock(void)
{
    fake_state();
    pthread_mutex_lock(&lock);
    if (!set_lock(F_OFD_SETLKW, F_WRLCK, 0, 1))
        abort_with_error("cannot lock the state");
}

void fake_unlock(void)
{
    set_lock(F_OFD_SETLK, F_UNLCK, 0, 1);
    pthread_mutex_unlock(&lock);
}

void fake_raise_event(uint32_t device, uint64_t type, uint64_t data)
{
    struct fake_management *management = &fake_state()->management;

    fake_lock();
    uint32_t number = atomic_load(&management->event_count);
    management->events[number % FAKE_EVENTS] = (struct fake_event){.device = device, .type = type, .data = data};
    atomic_store(&management->event_count, number + 1);
    fake_unlock();
    syscall(SYS_futex, &management->event_count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint64_t fake_process_bytes(const struct fake_process *slot, uint32_t device)
{
    uint64_t sum = 0;

    for (uint32_t kind = 0; kind < FAKE_KINDS; kind++)
        sum += atomic_load(&slot->devices[device].bytes[kind]);
    return sum;
}

static uint64_t used_bytes_of(const struct fake_process *slot, uint32_t device)
{
    return atomic_load(&slot->checkpoint) == CU_PROCESS_STATE_CHECKPOINTED ? 0 : fake_process_bytes(slot, device);
}

void fake_checkpoint_wait(void)
{
    while (process && atomic_load_explicit(&process->checkpoint, memory_order_relaxed))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A dead process holds nothing; the next process that claims its slot clears it. */
static uint64_t sum_used(uint32_t device, bool (*counts)(uint32_t slot))
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < FAKE_PROCESSES; i++) {
        uint64_t held = atomic_load(&state->processes[i].pid) ? used_bytes_of(&state->processes[i], device) : 0;
        if (held && (!counts || counts(i)))
            sum += held;
    }
    return sum;
}

uint64_t fake_used(uint32_t device)
{
    fake_state();
    return sum_used(device, fake_slot_is_live);
}

uint64_t fake_used_by(uint32_t device, uint32_t pid)
{
    fake_state();
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        if (pid && atomic_load(&state->processes[i].pid) == pid && fake_slot_is_live(i))
            return used_bytes_of(&state->processes[i], device);
    return 0;
}

static uint64_t requested_bytes_of(const struct fake_process_device *device)
{
    uint64_t sum = atomic_load(&device->slab_charged) - atomic_load(&device->slabs);

    for (uint32_t kind = 0; kind < FAKE_CONTEXT; kind++)
        sum += atomic_load(&device->bytes[kind]);
    return sum;
}

uint64_t fake_requested(uint32_t device)
{
    uint64_t sum = 0;

    fake_state();
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        if (atomic_load(&state->processes[i].pid) && fake_slot_is_live(i))
            sum += requested_bytes_of(&state->processes[i].devices[device]);
    return sum;
}

uint64_t fake_used_of_kind(uint32_t device, enum fake_kind kind)
{
    uint64_t sum = 0;

    fake_state();
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        if (atomic_load(&state->processes[i].pid) && fake_slot_is_live(i))
            sum += atomic_load(&state->processes[i].devices[device].bytes[kind]);
    return sum;
}

static void report_change(uint32_t device)
{
    if (fake_model.memory_changed)
        fake_model.memory_changed(device, fake_process_bytes(fake_process(), device));
}

bool fake_device_reserve(uint32_t device, enum fake_kind kind, uint64_t bytes)
{
    uint64_t size = fake_state()->devices[device].memory_bytes;
    _Atomic uint64_t *own_bytes = &fake_process()->devices[device].bytes[kind];

    if (bytes > size)
        return false;
    atomic_fetch_add(own_bytes, bytes);
    /* Usually there is room even with the memory of dead processes; only without room the locks are checked. */
    if (sum_used(device, NULL) <= size || sum_used(device, fake_slot_is_live) <= size) {
        report_change(device);
        return true;
    }
    atomic_fetch_sub(own_bytes, bytes);
    return false;
}

void fake_device_release(uint32_t device, enum fake_kind kind, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&fake_process()->devices[device].bytes[kind], bytes);

    if (before < bytes) {
        errno = ERANGE;
        abort_with_error("more memory was released than reserved");
    }
    report_change(device);
}

bool fake_pin(uint64_t bytes)
{
    uint64_t sum = 0, limit = fake_state()->host_bytes;
    _Atomic uint64_t *own_bytes = &fake_process()->pinned;

    if (bytes > limit)
        return false;
    atomic_fetch_add(own_bytes, bytes);
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        if (atomic_load(&state->processes[i].pid) && fake_slot_is_live(i))
            sum += atomic_load(&state->processes[i].pinned);
    if (sum <= limit)
        return true;
    atomic_fetch_sub(own_bytes, bytes);
    return false;
}

void fake_unpin(uint64_t bytes)
{
    atomic_fetch_sub(&fake_process()->pinned, bytes);
}

uint64_t fake_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t fake_run(uint32_t device, uint64_t ready_ns, uint64_t cost_ns)
{
    return fake_run_in(device, NULL, ready_ns, cost_ns);
}

void fake_count_launches(uint32_t device, uint64_t launches)
{
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t own_tally; /* the thread's tally, counted from 1; 0: not chosen yet */

    if (!own_tally)
        own_tally = 1 + atomic_fetch_add(&threads, 1) % FAKE_TALLIES;
    atomic_fetch_add_explicit(&fake_process()->devices[device].tallies[own_tally - 1].launches, launches,
                              memory_order_relaxed);
}

static void record_piece(struct fake_process_device *device, uint64_t begin_ns, uint64_t cost_ns)
{
    if (cost_ns) {
        struct fake_piece *piece = &device->pieces[atomic_fetch_add(&device->piece_count, 1) % FAKE_PIECES];

        atomic_store_explicit(&piece->begin_ns, begin_ns, memory_order_relaxed);
        atomic_store_explicit(&piece->end_ns, begin_ns + cost_ns, memory_order_relaxed);
    }
    atomic_fetch_add(&device->busy_ns, cost_ns);
}

uint64_t fake_consumed_ns(const struct fake_process_device *device, uint64_t now_ns)
{
    uint64_t total_ns = atomic_load(&device->busy_ns), left_ns = 0;

    for (uint32_t i = 0; i < FAKE_PIECES; i++) {
        uint64_t begin_ns = atomic_load(&device->pieces[i].begin_ns), end_ns = atomic_load(&device->pieces[i].end_ns);
        uint64_t from_ns = begin_ns > now_ns ? begin_ns : now_ns;

        left_ns += end_ns > from_ns ? end_ns - from_ns : 0;
    }
    return total_ns > left_ns ? total_ns - left_ns : 0;
}

uint64_t fake_run_in(uint32_t device, struct fake_lane *lane, uint64_t ready_ns, uint64_t cost_ns)
{
    struct fake_engine *engine = &fake_state()->devices[device].engine;
    _Atomic uint64_t *until = lane ? &lane->busy_until_ns : &engine->busy_until_ns;
    uint64_t now = fake_now_ns(), begin, busy = atomic_load(until);

    do {
        begin = busy > now ? busy : now;
        begin = begin > ready_ns ? begin : ready_ns;
    } while (!atomic_compare_exchange_weak(until, &busy, begin + cost_ns));
    atomic_fetch_add(&engine->busy_ns, cost_ns);
    record_piece(&fake_process()->devices[device], begin, cost_ns);
    fake_count_launches(device, 1);
    return begin + cost_ns;
}
