/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the ring and the helper thread.
 * Never: holds a lock while OpenCL is called, except the look lock, whose waits are bounded. Launching threads add
 * commands under the push lock; the thread that holds the look lock removes them.
 */
#include "track.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "interpose/kit/quiet_thread.h"
#include "interpose/kit/stops.h"
#include "interpose/kit/timed_lock.h"
#include "layer.h"
#include "measure.h"

#define RING_SIZE 4096u

#define LOOK_ALONE_NS                                                                                                  \
    (10 * FACET_NS_PER_MS)              /* between looks while alone on the device; a look slows kernels a little */
#define POLL_NS (100 * FACET_NS_PER_US) /* between looks while no command can be waited for safely */
#define LINGER_NS                                                                                                      \
    (50 * FACET_NS_PER_MS) /* the helper looks on after the last command, so that the next launch need not wake it */
#define SLEEP_MOST_NS (3600 * FACET_NS_PER_S)

#define SUPERVISE_NS       (4 * FACET_NS_PER_MS)   /* between calls of facet_tenant_supervise() */
#define ROOM_NS            (100 * FACET_NS_PER_MS) /* how long a launch waits for room in the ring */
#define LOOK_LOCK_NS       (100 * FACET_NS_PER_MS) /* longest wait of a program thread that has commands to report */
#define UNTRACKED_AHEAD_NS (3600 * FACET_NS_PER_S) /* see charge_untracked() */
#define PARK_TRIES         20                      /* at exit, 5 ms each */

/*
 * The most incomplete commands that one look visits. They are in order of submission, so the first few are enough; see
 * look_limit().
 */
#define LOOK_PENDING 64u

enum {
    AWAKE,
    NAPPING,  /* others want the device: a launch wakes it */
    WATCHING, /* alone on the device: only the gate, the ring filling up, or LOOK_ALONE_NS wake it */
    SLEEPING,
};

static struct {
    struct facet_cl_command commands[RING_SIZE]; /* event NULL: reported already */
    _Atomic uint32_t head, tail;                 /* head is also the futex that waits for room */
    _Atomic uint32_t waiting_for_room;
    _Atomic uint32_t wake_count; /* futex of the helper */
    _Atomic uint32_t sleep_state;
    _Atomic uint32_t helper_exists;
    _Atomic uint32_t needs_host_time;
} track;

static struct facet_timed_lock look_lock; /* held to scan the ring */
static uint64_t last_full_look_ns;        /* when a look last visited every command; protected by the look lock */

/* Steps of the end of the process. */
enum {
    RUNNING,
    EXITING,   /* report complete commands, then park */
    TORN_DOWN, /* drivers may be gone: make no call */
};
static _Atomic uint32_t exit_step, helper_parked;
static bool exit_handled; /* protected by the push lock; a child of fork() inherits it with the handler */

bool facet_cl_track_needs_host_time(void)
{
    return atomic_load_explicit(&track.needs_host_time, memory_order_relaxed);
}

void facet_cl_track_set_host_time_needed(void)
{
    atomic_store_explicit(&track.needs_host_time, 1, memory_order_relaxed);
}

/* The sums over several completions. */
struct batch {
    uint32_t count;
    uint64_t estimate_ns, busy_ns;
};

/* The device time of a command that failed (negative status) is unknown: it counts as none. */
static void settle_command(struct facet_cl_command *command, cl_int status, uint64_t now_ns, struct batch *batch)
{
    batch->count++;
    batch->estimate_ns += command->estimate_ns;
    if (status == CL_COMPLETE)
        batch->busy_ns += facet_cl_measure(command, now_ns);
    facet_cl_target.clReleaseEvent(command->event);
    command->event = NULL;
}

static void report_batch(struct facet_tenant *tenant, const struct batch *batch, uint64_t now_ns)
{
    if (!batch->count)
        return;
    facet_tenant_complete(tenant, batch->count, batch->estimate_ns, batch->busy_ns, now_ns);
}

static cl_int status_of(cl_event event)
{
    cl_int status = CL_COMPLETE;
    cl_int result =
        facet_cl_target.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);

    return result == CL_SUCCESS ? status : result;
}

void facet_cl_track_finished(struct facet_tenant *tenant, const struct facet_cl_command *command)
{
    struct facet_cl_command finished = *command;
    struct batch batch = {0};
    uint64_t now_ns = facet_clock_now_ns();

    facet_cl_measure_tick(now_ns, false);
    settle_command(&finished, status_of(finished.event), now_ns, &batch);
    report_batch(tenant, &batch, now_ns);
}

/* The result of one scan of the ring. */
struct look {
    uint32_t tail;             /* the scan's end */
    bool has_pending;          /* a command is in flight */
    bool saw_all;              /* every command in flight was visited */
    uint64_t oldest_begin_ns;  /* no command in flight ran before this time */
    cl_event wait_event;       /* the event for which the helper waits while other vGPUs want the device; NULL: none */
    uint32_t wait_index;       /* the index of its command in the ring's order */
    uint64_t wait_estimate_ns; /* the estimate of its command */
};

/*
 * Waiting in the driver is safe only for commands that end without the program's help: commands that run, and commands
 * that were submitted to the device and wait for no event. Of several such commands, the one with the shortest estimate
 * is chosen.
 */
static void consider_command(struct look *look, const struct facet_cl_command *command, uint32_t at, cl_int status)
{
    bool safe = status == CL_RUNNING || (status == CL_SUBMITTED && !command->may_be_held);

    if (safe && (!look->wait_event || command->estimate_ns < look->wait_estimate_ns)) {
        look->wait_event = command->event;
        look->wait_index = at;
        look->wait_estimate_ns = command->estimate_ns;
    }
}

/*
 * A running command began after a look last saw it waiting or, if no look saw it waiting, after the last look that
 * visited every command. A driver may report the beginning late.
 */
static void note_begin(struct look *look, struct facet_cl_command *command, cl_int status, uint64_t now_ns)
{
    if (status != CL_RUNNING)
        command->waited_ns = now_ns;
    else if (!command->waited_ns)
        command->waited_ns = last_full_look_ns ? last_full_look_ns : 1;
    if (status == CL_RUNNING && command->waited_ns < look->oldest_begin_ns)
        look->oldest_begin_ns = command->waited_ns;
}

/*
 * Publishes when the oldest running command began, unless the look skipped commands: a skipped command may have begun
 * earlier.
 */
static void publish_begin(struct facet_tenant *tenant, const struct look *look, uint64_t now_ns)
{
    facet_tenant_supervise(tenant, now_ns); /* the helper may be waiting in the driver meanwhile */
    if (!look->saw_all)
        return;
    last_full_look_ns = now_ns;
    facet_tenant_set_unsettled_since(tenant, look->oldest_begin_ns);
}

/*
 * Flushes the queue of a command that was submitted while this vGPU was alone, and is still in a driver's batch while
 * others wait. An incomplete command keeps its queue alive, even if the program has released the queue.
 */
static void flush_command(struct facet_cl_command *command)
{
    cl_command_queue queue = NULL;

    command->flushed = true;
    if (facet_cl_target.clGetEventInfo(command->event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) ==
            CL_SUCCESS &&
        queue)
        facet_cl_target.clFlush(queue);
}

/* The commands that a look is for. No queue and no events: all commands. */
struct goal {
    cl_command_queue queue;
    cl_uint event_count;
    const cl_event *events;
    uint32_t limit;  /* the most incomplete commands that are visited, besides the events */
    bool by_program; /* a thread of the program looks: it has just called the driver, so it may do so even at exit */
};

static bool is_among(cl_event event, const struct goal *goal)
{
    for (cl_uint i = 0; i < goal->event_count; i++)
        if (goal->events[i] == event)
            return true;
    return false;
}

/* Whether the command is in the queue that the program waited for. Commands of other queues may be complete too,
 * because the queue may have waited for their events. */
static bool is_of_queue(const struct facet_cl_command *command, const struct goal *goal)
{
    return !goal->queue || !command->queue || command->queue == goal->queue;
}

/*
 * Every sixteenth look visits all commands: if one queue overtakes another, the first few pending commands may not be
 * the next to complete.
 */
static uint32_t look_limit(void)
{
    static uint32_t looks;

    return ++looks % 16 ? LOOK_PENDING : RING_SIZE;
}

static void free_head(uint32_t head, uint32_t tail)
{
    while (head != tail && !track.commands[head % RING_SIZE].event)
        head++;
    atomic_store_explicit(&track.head, head, memory_order_seq_cst);
    if (atomic_load_explicit(&track.waiting_for_room, memory_order_seq_cst))
        facet_futex_wake(&track.head);
}

static bool may_query(const struct goal *goal)
{
    return goal->by_program || atomic_load(&exit_step) != TORN_DOWN;
}

/* Called with the look lock. */
static struct look scan_ring(struct facet_tenant *tenant, const struct goal *goal, uint64_t now_ns)
{
    uint32_t head = atomic_load_explicit(&track.head, memory_order_relaxed);
    struct look look = {
        .tail = atomic_load_explicit(&track.tail, memory_order_acquire), .saw_all = true, .oldest_begin_ns = now_ns};
    uint32_t at = head;
    bool prompt = facet_tenant_reports_promptly(tenant);
    struct batch batch = {0};
    /* Incomplete commands visited: of the queue, of other queues. */
    uint32_t queue_pending = 0, other_pending = goal->queue ? 0 : goal->limit;

    facet_cl_measure_tick(now_ns, !goal->by_program);
    for (; at != look.tail && (queue_pending < goal->limit || other_pending < goal->limit || goal->event_count) &&
           may_query(goal);
         at++) {
        struct facet_cl_command *command = &track.commands[at % RING_SIZE];
        uint32_t *pending = is_of_queue(command, goal) ? &queue_pending : &other_pending;

        if (!command->event)
            continue;
        if (*pending >= goal->limit && !is_among(command->event, goal)) {
            look.saw_all = false;
            continue;
        }
        cl_int status = status_of(command->event);
        if (status <= CL_COMPLETE) {
            settle_command(command, status, now_ns, &batch);
            continue;
        }
        ++*pending;
        note_begin(&look, command, status, now_ns);
        if (prompt)
            consider_command(&look, command, at, status);
        if (prompt && status == CL_QUEUED && !command->flushed)
            flush_command(command);
    }
    free_head(head, look.tail);
    report_batch(tenant, &batch, now_ns);
    look.saw_all = look.saw_all && at == look.tail;
    publish_begin(tenant, &look, now_ns);
    look.has_pending = atomic_load_explicit(&track.head, memory_order_relaxed) != look.tail;
    return look;
}

/*
 * Sleeps until woken or for `ns`. The helper sets its sleep state before it reads the tail; a launching thread moves
 * the tail before it reads the sleep state. So at least one of them sees the other.
 */
static void sleep_for(uint32_t state, uint32_t seen_wakes, uint32_t seen_tail, uint64_t ns)
{
    atomic_store_explicit(&track.sleep_state, state, memory_order_seq_cst);
    if (atomic_load_explicit(&track.tail, memory_order_seq_cst) == seen_tail)
        facet_futex_wait(&track.wake_count, seen_wakes, ns);
    atomic_store_explicit(&track.sleep_state, AWAKE, memory_order_relaxed);
}

/*
 * While this vGPU is alone on the device, no other waits for its reports. When another comes, the gate changes, which
 * wakes the helper.
 */
static void watch_gate(const struct facet_tenant *tenant)
{
    uint32_t gate = atomic_load_explicit(&tenant->policy->gate, memory_order_acquire);

    atomic_store_explicit(&track.sleep_state, WATCHING, memory_order_seq_cst);
    if (FACET_GATE_STATE(gate) == FACET_GATE_OPEN)
        facet_futex_wait(&tenant->policy->gate, gate, LOOK_ALONE_NS);
    atomic_store_explicit(&track.sleep_state, AWAKE, memory_order_relaxed);
}

static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *unused)
{
    atomic_fetch_add_explicit(&track.wake_count, 1, memory_order_release);
    facet_futex_wake(&track.wake_count);
}

/*
 * Waits in the driver for the event that the look chose. A driver that runs within this process gets a callback
 * instead, and the helper ticks meanwhile, which shows that the process is not stopped.
 */
static void wait_for_event(const struct look *look, uint32_t seen_wakes)
{
    static uint32_t callback_index; /* one more than the index of the last command with a callback */
    bool uses_callback = facet_cl_measure_runs_in_process();

    if (uses_callback && callback_index != look->wait_index + 1)
        uses_callback =
            facet_cl_target.clSetEventCallback(look->wait_event, CL_COMPLETE, on_complete, NULL) == CL_SUCCESS;
    if (uses_callback) {
        callback_index = look->wait_index + 1;
        facet_futex_wait(&track.wake_count, seen_wakes, FACET_STOPS_TICK_NS);
    } else {
        facet_cl_target.clWaitForEvents(1, &look->wait_event);
    }
    facet_cl_target.clReleaseEvent(look->wait_event);
}

/* Sleeps until a launch. No ticks are due meanwhile (measure.h). */
static void sleep_until_launch(const struct look *look, uint32_t seen_wakes)
{
    facet_cl_measure_pause();
    sleep_for(SLEEPING, seen_wakes, look->tail, SLEEP_MOST_NS);
}

/* Rests after a look, for as long as the situation allows. */
static void rest_until_due(const struct facet_tenant *tenant, const struct look *look, uint32_t seen_wakes,
                           uint64_t idle_ns)
{
    bool prompt = facet_tenant_reports_promptly(tenant);

    if (look->wait_event)
        wait_for_event(look, seen_wakes);
    else if (look->has_pending && prompt)
        sleep_for(NAPPING, seen_wakes, look->tail, POLL_NS);
    else if (!look->has_pending && idle_ns >= LINGER_NS)
        sleep_until_launch(look, seen_wakes);
    else if (prompt)
        sleep_for(NAPPING, seen_wakes, look->tail, LOOK_ALONE_NS);
    else
        watch_gate(tenant);
}

/* The process is exiting, and the drivers' destructors will run: this thread makes no more calls. */
static void park_helper(void)
{
    atomic_store(&helper_parked, 1);
    facet_futex_wake(&helper_parked);
    for (;;)
        facet_futex_wait(&helper_parked, 1, SLEEP_MOST_NS);
}

static struct look look_as_helper(struct facet_tenant *tenant, uint64_t now_ns)
{
    struct goal goal = {.limit = look_limit()};

    while (!facet_timed_lock_take(&look_lock, FACET_NS_PER_S))
        ;
    struct look look = scan_ring(tenant, &goal, now_ns);
    if (look.wait_event)
        facet_cl_target.clRetainEvent(
            look.wait_event); /* another thread may report and release it before the wait begins */
    facet_timed_lock_release(&look_lock);
    return look;
}

static void *run_helper(void *argument)
{
    struct facet_tenant *tenant = argument;
    uint64_t busy_until = 0, supervised = 0;

    prctl(PR_SET_NAME, "facet-track");
    for (;;) {
        uint32_t seen_wakes = atomic_load_explicit(&track.wake_count, memory_order_acquire);
        uint64_t now = facet_clock_now_ns();

        if (now - supervised >= SUPERVISE_NS) {
            facet_tenant_supervise(tenant, now);
            supervised = now;
        }
        bool last = atomic_load(&exit_step);
        struct look look = look_as_helper(tenant, now);
        if (last)
            park_helper();
        if (look.has_pending || !busy_until)
            busy_until = now;
        rest_until_due(tenant, &look, seen_wakes, now - busy_until);
    }
    return NULL;
}

static void wake_helper(void)
{
    atomic_fetch_add_explicit(&track.wake_count, 1, memory_order_release);
    facet_futex_wake(&track.wake_count);
    if (atomic_load_explicit(&track.sleep_state, memory_order_seq_cst) == WATCHING)
        facet_futex_wake(&facet_cl_process.tenant.policy->gate);
}

/* Runs before the driver's own destructors. Work that is still running is left to the driver, as without Facet. */
static void on_exit_of_process(void)
{
    int saved = errno;

    atomic_store(&exit_step, EXITING);
    if (atomic_load(&track.helper_exists)) {
        wake_helper();
        for (int i = 0; i < PARK_TRIES && !atomic_load(&helper_parked); i++)
            facet_futex_wait(&helper_parked, 0, 5 * FACET_NS_PER_MS);
    }
    atomic_store(&exit_step, TORN_DOWN);
    errno = saved;
}

static bool start_thread(void)
{
    if (!exit_handled && atexit(on_exit_of_process) != 0)
        return false;
    exit_handled = true;
    return facet_quiet_thread(run_helper, &facet_cl_process.tenant);
}

bool facet_cl_track_ready(void)
{
    int saved = errno;

    if (__builtin_expect(atomic_load_explicit(&track.helper_exists, memory_order_acquire), 1))
        return true;
    pthread_mutex_lock(&facet_cl_push_lock);
    bool running = atomic_load(&track.helper_exists) || start_thread();
    atomic_store(&track.helper_exists, running);
    pthread_mutex_unlock(&facet_cl_push_lock);
    errno = saved;
    return running;
}

/*
 * False when the ring is full. `*ret_half_full`: with this command the ring is half full; the caller wakes
 * the helper.
 */
static bool push_command(const struct facet_cl_command *command, bool *ret_half_full)
{
    pthread_mutex_lock(&facet_cl_push_lock);
    uint32_t tail = atomic_load_explicit(&track.tail, memory_order_relaxed);
    bool room = tail - atomic_load_explicit(&track.head, memory_order_acquire) < RING_SIZE;
    if (room) {
        track.commands[tail % RING_SIZE] = *command;
        atomic_store_explicit(&track.tail, tail + 1, memory_order_seq_cst);
        *ret_half_full = tail + 1 - atomic_load_explicit(&track.head, memory_order_relaxed) == RING_SIZE / 2;
    }
    pthread_mutex_unlock(&facet_cl_push_lock);
    return room;
}

/*
 * Waits for the helper to make room; false when it did not. If the head did not move during such a wait, no thread
 * waits again until it has moved.
 */
static bool wait_for_room(void)
{
    static _Atomic uint64_t stuck_head = UINT64_MAX;
    uint64_t until = facet_clock_now_ns() + ROOM_NS;
    bool room = false;

    if (atomic_load(&stuck_head) == atomic_load(&track.head))
        return false;
    atomic_fetch_add(&track.waiting_for_room, 1);
    while (!room && !atomic_load(&exit_step) && facet_clock_now_ns() < until) {
        uint32_t head = atomic_load(&track.head);

        room = atomic_load(&track.tail) - head < RING_SIZE;
        if (!room) {
            wake_helper();
            facet_futex_wait(&track.head, head, FACET_NS_PER_MS);
        }
    }
    atomic_fetch_sub(&track.waiting_for_room, 1);
    atomic_store(&stuck_head, room ? UINT64_MAX : atomic_load(&track.head));
    return room;
}

/*
 * Charges the estimate of a command for which the ring has no room, and does not track the command: the commands in the
 * ring may wait for an action of the program that comes only after this command. All such charges together exceed the
 * time since the attach by at most an hour: the limiter rejects more (limiter/belief.c).
 */
static void charge_untracked(struct facet_tenant *tenant, const struct facet_cl_command *command)
{
    static _Atomic uint64_t untracked_ns;
    uint64_t now_ns = facet_clock_now_ns(), charged_before_ns = atomic_load(&untracked_ns),
             charged_ns = command->estimate_ns;
    uint64_t most_ns = now_ns - tenant->attached_ns + UNTRACKED_AHEAD_NS;
    uint64_t room_ns = most_ns > charged_before_ns ? most_ns - charged_before_ns : 0;

    if (charged_ns > room_ns)
        charged_ns = room_ns;
    atomic_fetch_add(&untracked_ns, charged_ns);
    facet_cl_target.clReleaseEvent(command->event);
    facet_tenant_complete(tenant, 1, command->estimate_ns, charged_ns, now_ns);
}

void facet_cl_track_add(struct facet_tenant *tenant, const struct facet_cl_command *command)
{
    bool is_half_full = false;

    while (!push_command(command, &is_half_full)) {
        if (!wait_for_room()) {
            charge_untracked(tenant, command);
            return;
        }
    }

    uint32_t sleep = atomic_load_explicit(&track.sleep_state, memory_order_seq_cst);
    if (is_half_full || sleep == SLEEPING || sleep == NAPPING)
        wake_helper();
}

static void look_as_program(struct goal *goal, uint64_t wait_ns)
{
    if (atomic_load(&track.head) == atomic_load(&track.tail) || !facet_timed_lock_take(&look_lock, wait_ns))
        return;
    goal->limit = LOOK_PENDING;
    goal->by_program = true;
    scan_ring(&facet_cl_process.tenant, goal, facet_clock_now_ns());
    facet_timed_lock_release(&look_lock);
}

void facet_cl_track_waited(cl_command_queue queue, cl_uint count, const cl_event *events)
{
    struct goal goal = {.queue = queue, .event_count = count, .events = events};

    look_as_program(&goal, LOOK_LOCK_NS);
}

void facet_cl_track_called_back(cl_event event)
{
    struct goal goal = {.event_count = 1, .events = &event};

    look_as_program(&goal, 0);
}

void facet_cl_track_forked(void)
{
    facet_timed_lock_forked(&look_lock);
    atomic_store(&track.head, 0);
    atomic_store(&track.tail, 0);
    atomic_store(&track.waiting_for_room, 0);
    atomic_store(&track.sleep_state, AWAKE);
    atomic_store(&track.helper_exists, 0);
    last_full_look_ns = 0;
    facet_cl_measure_forked();
}
