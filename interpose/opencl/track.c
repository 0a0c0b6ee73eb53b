/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the ring and the helper thread.
 * Never: holds a lock while OpenCL is called, except the look lock, for which no thread waits without end. Launching
 * threads add under the push lock; the thread that holds the look lock takes out.
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

#define LAZY_NS   (10 * FACET_NS_PER_MS)  /* between looks while alone on the device; each costs its kernels a little */
#define POLL_NS   (100 * FACET_NS_PER_US) /* between looks while nothing can safely be waited for */
#define LINGER_NS (50 * FACET_NS_PER_MS)  /* stays half awake after work, so that the next launch need not wake it */
#define DEEP_NS   (3600 * FACET_NS_PER_S)

#define SUPERVISE_NS    (4 * FACET_NS_PER_MS)
#define ROOM_NS         (100 * FACET_NS_PER_MS) /* how long a launch waits for room in the ring */
#define LOOK_LOCK_NS    (100 * FACET_NS_PER_MS) /* how long a thread that waited for commands waits to report them */
#define UNSEEN_AHEAD_NS (3600 * FACET_NS_PER_S)
#define PARK_TRIES      20 /* times 5 ms, at exit */

/* Commands not complete that one look visits. In order of submission the first few tell enough; see look_limit(). */
#define LOOK_PENDING 64u

enum {
    AWAKE,
    NAPPING,  /* others want the device: a launch wakes it */
    WATCHING, /* alone on the device: only the gate, the ring filling up, or LAZY_NS wake it */
    DEEP,
};

static struct {
    struct facet_cl_command commands[RING_SIZE]; /* event NULL = reaped already */
    _Atomic uint32_t head, tail;                 /* head is also the futex that waits for room */
    _Atomic uint32_t waiting_for_room;
    _Atomic uint32_t wakes; /* futex of the helper */
    _Atomic uint32_t sleep;
    _Atomic uint32_t running; /* the helper exists */
    _Atomic uint32_t wants_time;
} track;

static struct facet_timed_lock look_lock; /* to look over the ring */
static uint64_t whole_ns;                 /* when a look last saw all there was; under the look lock */

/* Steps of the end of the process. */
enum {
    RUNNING,
    EXITING,   /* report complete commands, then park */
    TORN_DOWN, /* drivers may be gone: call nothing */
};
static _Atomic uint32_t ending, parked;
static bool exit_handled; /* under the push lock; inherited by children, as the handler is */

bool facet_cl_track_wants_time(void)
{
    return atomic_load_explicit(&track.wants_time, memory_order_relaxed);
}

void facet_cl_track_want_time(void)
{
    atomic_store_explicit(&track.wants_time, 1, memory_order_relaxed);
}

/* The sums over a number of completions. */
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

/* The findings of one look over the ring. */
struct look {
    uint32_t tail;        /* how far it went */
    bool left;            /* something is in flight */
    bool whole;           /* all of that was visited */
    uint64_t since_ns;    /* before which nothing of it has run */
    cl_event waitable;    /* of the helper's looks, while others want the device: a reference of its own */
    uint32_t waitable_at; /* its place in the order of the ring */
    uint64_t waitable_ns; /* its estimate */
};

/*
 * Waiting in the driver is safe only for commands that end without the program's help: they run, or were handed to the
 * device and wait for no event. Of several (one per queue) the one expected to be shortest is waited for.
 */
static void consider_command(struct look *look, const struct facet_cl_command *command, uint32_t at, cl_int status)
{
    bool safe = status == CL_RUNNING || (status == CL_SUBMITTED && !command->may_be_held);

    if (safe && (!look->waitable || command->estimate_ns < look->waitable_ns)) {
        look->waitable = command->event;
        look->waitable_at = at;
        look->waitable_ns = command->estimate_ns;
    }
}

/* A running command began after it was last seen waiting or, if it never was, after the last whole look. A driver may
 * report late that it runs. */
static void note_begin(struct look *look, struct facet_cl_command *command, cl_int status, uint64_t now_ns)
{
    if (status != CL_RUNNING)
        command->waited_ns = now_ns;
    else if (!command->waited_ns)
        command->waited_ns = whole_ns ? whole_ns : 1;
    if (status == CL_RUNNING && command->waited_ns < look->since_ns)
        look->since_ns = command->waited_ns;
}

/* Tells when the oldest running command began, unless the look missed some: one of those may have begun earlier. */
static void tell_begin(struct facet_tenant *tenant, const struct look *look, uint64_t now_ns)
{
    facet_tenant_supervise(tenant, now_ns); /* the helper may be waiting in the driver meanwhile */
    if (!look->whole)
        return;
    whole_ns = now_ns;
    facet_tenant_set_unsettled_since(tenant, look->since_ns);
}

/*
 * Submitted while we were alone, and still in a driver's batch now that others wait. A command that is not complete
 * keeps its queue alive, so the queue may be asked for even if the program has let go of it.
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

/* The aim of a look. No queue and no events: all commands, for the helper or a thread that waits for them. */
struct wanted {
    cl_command_queue queue;
    cl_uint count;
    const cl_event *events;
    uint32_t limit;  /* commands not complete that are visited, of which one does not know whether they are */
    bool by_program; /* that was in the driver just now: alive even at the end of the process */
};

static bool is_among(cl_event event, const struct wanted *wanted)
{
    for (cl_uint i = 0; i < wanted->count; i++)
        if (wanted->events[i] == event)
            return true;
    return false;
}

/* Whether it is of the queue that was waited for. Commands of other queues may be complete by that, too: the queue may
 * have waited for their events. */
static bool is_of_queue(const struct facet_cl_command *command, const struct wanted *wanted)
{
    return !wanted->queue || !command->queue || command->queue == wanted->queue;
}

/* Every sixteenth look visits all: with queues that overtake each other the first few pending may be the wrong ones. */
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

static bool may_ask(const struct wanted *wanted)
{
    return wanted->by_program || atomic_load(&ending) != TORN_DOWN;
}

/* Under the look lock. */
static struct look look_over(struct facet_tenant *tenant, const struct wanted *wanted, uint64_t now_ns)
{
    uint32_t head = atomic_load_explicit(&track.head, memory_order_relaxed);
    struct look look = {
        .tail = atomic_load_explicit(&track.tail, memory_order_acquire), .whole = true, .since_ns = now_ns};
    uint32_t at = head;
    bool prompt = facet_tenant_reports_promptly(tenant);
    struct batch batch = {0};
    uint32_t own = 0,
             others = wanted->queue ? 0 : wanted->limit; /* visited and not complete: of the queue, of others */

    facet_cl_measure_tick(now_ns, !wanted->by_program);
    for (; at != look.tail && (own < wanted->limit || others < wanted->limit || wanted->count) && may_ask(wanted);
         at++) {
        struct facet_cl_command *command = &track.commands[at % RING_SIZE];
        uint32_t *pending = is_of_queue(command, wanted) ? &own : &others;

        if (!command->event)
            continue;
        if (*pending >= wanted->limit && !is_among(command->event, wanted)) {
            look.whole = false;
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
    look.whole = look.whole && at == look.tail;
    tell_begin(tenant, &look, now_ns);
    look.left = atomic_load_explicit(&track.head, memory_order_relaxed) != look.tail;
    return look;
}

/* Sleeps until woken or for `ns`. A launch is either seen in the tail here, or sees us asleep. */
static void sleep_for(uint32_t how, uint32_t seen_wakes, uint32_t seen_tail, uint64_t ns)
{
    atomic_store_explicit(&track.sleep, how, memory_order_seq_cst);
    if (atomic_load_explicit(&track.tail, memory_order_seq_cst) == seen_tail)
        facet_futex_wait(&track.wakes, seen_wakes, ns);
    atomic_store_explicit(&track.sleep, AWAKE, memory_order_relaxed);
}

/* Alone on the device, no vGPU waits for our reports; when another comes, the gate changes, and that wakes us. */
static void watch_gate(const struct facet_tenant *tenant)
{
    uint32_t gate = atomic_load_explicit(&tenant->policy->gate, memory_order_acquire);

    atomic_store_explicit(&track.sleep, WATCHING, memory_order_seq_cst);
    if (FACET_GATE_STATE(gate) == FACET_GATE_OPEN)
        facet_futex_wait(&tenant->policy->gate, gate, LAZY_NS);
    atomic_store_explicit(&track.sleep, AWAKE, memory_order_relaxed);
}

static void CL_CALLBACK on_end(cl_event event, cl_int status, void *unused)
{
    atomic_fetch_add_explicit(&track.wakes, 1, memory_order_release);
    facet_futex_wake(&track.wakes);
}

/*
 * Waits in the driver for what the look chose. A driver that runs inside this program is asked for a callback instead:
 * meanwhile the helper ticks, and shows that the process lives.
 */
static void wait_for(const struct look *look, uint32_t seen_wakes)
{
    static uint32_t calls_for; /* the place of the last one that it calls for, and 1 more */
    bool calls = facet_cl_measure_is_inside();

    if (calls && calls_for != look->waitable_at + 1)
        calls = facet_cl_target.clSetEventCallback(look->waitable, CL_COMPLETE, on_end, NULL) == CL_SUCCESS;
    if (calls) {
        calls_for = look->waitable_at + 1;
        facet_futex_wait(&track.wakes, seen_wakes, FACET_STOPS_TICK_NS);
    } else {
        facet_cl_target.clWaitForEvents(1, &look->waitable);
    }
    facet_cl_target.clReleaseEvent(look->waitable);
}

/* The launch that ends this sleep begins its own time. */
static void sleep_deeply(const struct look *look, uint32_t seen_wakes)
{
    facet_cl_measure_rests();
    sleep_for(DEEP, seen_wakes, look->tail, DEEP_NS);
}

/* Rests after a look, for as long as the situation allows. */
static void rest_until_due(const struct facet_tenant *tenant, const struct look *look, uint32_t seen_wakes,
                           uint64_t idle_ns)
{
    bool prompt = facet_tenant_reports_promptly(tenant);

    if (look->waitable)
        wait_for(look, seen_wakes);
    else if (look->left && prompt)
        sleep_for(NAPPING, seen_wakes, look->tail, POLL_NS);
    else if (!look->left && idle_ns >= LINGER_NS)
        sleep_deeply(look, seen_wakes);
    else if (prompt)
        sleep_for(NAPPING, seen_wakes, look->tail, LAZY_NS);
    else
        watch_gate(tenant);
}

/* The process is exiting and drivers will take themselves down: from here on this thread calls nothing. */
static void park_helper(void)
{
    atomic_store(&parked, 1);
    facet_futex_wake(&parked);
    for (;;)
        facet_futex_wait(&parked, 1, DEEP_NS);
}

static struct look look_in_turn(struct facet_tenant *tenant, uint64_t now_ns)
{
    struct wanted wanted = {.limit = look_limit()};

    while (!facet_timed_lock_take(&look_lock, FACET_NS_PER_S))
        ;
    struct look look = look_over(tenant, &wanted, now_ns);
    if (look.waitable)
        facet_cl_target.clRetainEvent(look.waitable); /* it may be over, and reported, before the wait for it begins */
    facet_timed_lock_end(&look_lock);
    return look;
}

static void *run_helper(void *argument)
{
    struct facet_tenant *tenant = argument;
    uint64_t busy_until = 0, supervised = 0;

    prctl(PR_SET_NAME, "facet-track");
    for (;;) {
        uint32_t wakes = atomic_load_explicit(&track.wakes, memory_order_acquire);
        uint64_t now = facet_clock_now_ns();

        if (now - supervised >= SUPERVISE_NS) {
            facet_tenant_supervise(tenant, now);
            supervised = now;
        }
        bool last = atomic_load(&ending);
        struct look look = look_in_turn(tenant, now);
        if (last)
            park_helper();
        if (look.left || !busy_until)
            busy_until = now;
        rest_until_due(tenant, &look, wakes, now - busy_until);
    }
    return NULL;
}

static void wake_helper(void)
{
    atomic_fetch_add_explicit(&track.wakes, 1, memory_order_release);
    facet_futex_wake(&track.wakes);
    if (atomic_load_explicit(&track.sleep, memory_order_seq_cst) == WATCHING)
        facet_futex_wake(&facet_cl_process.tenant.policy->gate);
}

/* Runs before the driver's own destructors. Work that is still running then is the driver's to end, as without us. */
static void on_exit_of_process(void)
{
    int saved = errno;

    atomic_store(&ending, EXITING);
    if (atomic_load(&track.running)) {
        wake_helper();
        for (int i = 0; i < PARK_TRIES && !atomic_load(&parked); i++)
            facet_futex_wait(&parked, 0, 5 * FACET_NS_PER_MS);
    }
    atomic_store(&ending, TORN_DOWN);
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

    if (__builtin_expect(atomic_load_explicit(&track.running, memory_order_acquire), 1))
        return true;
    pthread_mutex_lock(&facet_cl_push_lock);
    bool running = atomic_load(&track.running) || start_thread();
    atomic_store(&track.running, running);
    pthread_mutex_unlock(&facet_cl_push_lock);
    errno = saved;
    return running;
}

/* `*ret_half` says that this command filled half the ring: high time for a look. */
static bool push_command(const struct facet_cl_command *command, bool *ret_half)
{
    pthread_mutex_lock(&facet_cl_push_lock);
    uint32_t tail = atomic_load_explicit(&track.tail, memory_order_relaxed);
    bool room = tail - atomic_load_explicit(&track.head, memory_order_acquire) < RING_SIZE;
    if (room) {
        track.commands[tail % RING_SIZE] = *command;
        atomic_store_explicit(&track.tail, tail + 1, memory_order_seq_cst);
        *ret_half = tail + 1 - atomic_load_explicit(&track.head, memory_order_relaxed) == RING_SIZE / 2;
    }
    pthread_mutex_unlock(&facet_cl_push_lock);
    return room;
}

/* Waits for the helper to make room; false when it could not. A head that did not move once is not waited for again. */
static bool wait_for_room(void)
{
    static _Atomic uint64_t stuck_at = UINT64_MAX;
    uint64_t until = facet_clock_now_ns() + ROOM_NS;
    bool room = false;

    if (atomic_load(&stuck_at) == atomic_load(&track.head))
        return false;
    atomic_fetch_add(&track.waiting_for_room, 1);
    while (!room && !atomic_load(&ending) && facet_clock_now_ns() < until) {
        uint32_t head = atomic_load(&track.head);

        room = atomic_load(&track.tail) - head < RING_SIZE;
        if (!room) {
            wake_helper();
            facet_futex_wait(&track.head, head, FACET_NS_PER_MS);
        }
    }
    atomic_fetch_sub(&track.waiting_for_room, 1);
    atomic_store(&stuck_at, room ? UINT64_MAX : atomic_load(&track.head));
    return room;
}

/*
 * No room, because thousands of commands wait for something the program may do only after this one. It is charged what
 * such a command usually takes, and followed no further. All of them together are never charged more than an hour ahead
 * of the time that there was: the limiter would not believe it (limiter/belief.c).
 */
static void charge_unseen(struct facet_tenant *tenant, const struct facet_cl_command *command)
{
    static _Atomic uint64_t silent_ns;
    uint64_t now_ns = facet_clock_now_ns(), before_ns = atomic_load(&silent_ns), cost_ns = command->estimate_ns;
    uint64_t most_ns = now_ns - tenant->attached_ns + UNSEEN_AHEAD_NS;
    uint64_t room_ns = most_ns > before_ns ? most_ns - before_ns : 0;

    if (cost_ns > room_ns)
        cost_ns = room_ns;
    atomic_fetch_add(&silent_ns, cost_ns);
    facet_cl_target.clReleaseEvent(command->event);
    facet_tenant_complete(tenant, 1, command->estimate_ns, cost_ns, now_ns);
}

void facet_cl_track_add(struct facet_tenant *tenant, const struct facet_cl_command *command)
{
    bool half = false;

    while (!push_command(command, &half)) {
        if (!wait_for_room()) {
            charge_unseen(tenant, command);
            return;
        }
    }

    uint32_t sleep = atomic_load_explicit(&track.sleep, memory_order_seq_cst);
    if (half || sleep == DEEP || sleep == NAPPING)
        wake_helper();
}

static void look_for(struct wanted *wanted, uint64_t patience_ns)
{
    if (atomic_load(&track.head) == atomic_load(&track.tail) || !facet_timed_lock_take(&look_lock, patience_ns))
        return;
    wanted->limit = LOOK_PENDING;
    wanted->by_program = true;
    look_over(&facet_cl_process.tenant, wanted, facet_clock_now_ns());
    facet_timed_lock_end(&look_lock);
}

void facet_cl_track_waited(cl_command_queue queue, cl_uint count, const cl_event *events)
{
    struct wanted wanted = {.queue = queue, .count = count, .events = events};

    look_for(&wanted, LOOK_LOCK_NS);
}

void facet_cl_track_called_back(cl_event event)
{
    struct wanted wanted = {.count = 1, .events = &event};

    look_for(&wanted, 0);
}

void facet_cl_track_forked(void)
{
    facet_timed_lock_forked(&look_lock);
    atomic_store(&track.head, 0);
    atomic_store(&track.tail, 0);
    atomic_store(&track.waiting_for_room, 0);
    atomic_store(&track.sleep, AWAKE);
    atomic_store(&track.running, 0);
    whole_ns = 0;
    facet_cl_measure_forked();
}
