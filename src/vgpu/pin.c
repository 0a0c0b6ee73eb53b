/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the pins that keep memory on the device: those of launches, where memory swaps, and those of the program.
 * Never: holds a launch's pin after the launch, because other vGPUs wait for the memory.
 *
 * A kernel may follow any pointer that it finds in memory, so each launch pins all memory of its vGPU. Each launch
 * takes a pin of its own, so that src/memory can make new launches wait when it is another vGPU's turn.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "vgpu/driver.h"
#include "vgpu/pin.h"
#include "vgpu/stream.h"

/* How long a launch waits before it checks for completed launches and the end of its vGPU. */
#define PIN_STEP_NS (FACET_NS_PER_S / 20)

/* A pin, and the launch that needs it. A pin that the program asked for has its number in `sequence`. */
struct facet_vgpu_pin {
    struct facet_vgpu_pin *next;
    struct facet_pin *pin;
    uint32_t stream;
    uint64_t sequence;
};

static bool vgpu_swaps(const struct facet_vgpu *vgpu)
{
    return vgpu->space && vgpu->device->swap_bytes > 0;
}

/* Releases pins of completed launches. The driver's thread does this, too, but that thread may be the one waiting here.
 */
static void release_pins_of_all_vgpus(struct facet_driver *driver)
{
    struct facet_vgpu *vgpu;

    for (uint32_t id = 0; (vgpu = facet_vgpu_next(driver, id));) {
        id = vgpu->id + 1;
        facet_vgpu_pins_release(vgpu, false);
        facet_vgpu_drop(vgpu);
        if (id == 0)
            break;
    }
}

/* Like facet_space_pin(), but stops waiting when the vGPU ends. */
static enum facet_status pin_until_vgpu_ends(struct facet_vgpu *vgpu, const uint64_t *addresses, uint32_t count,
                                             uint64_t timeout_ns, struct facet_pin **ret_pin, struct facet_error *error)
{
    uint64_t now = facet_clock_now_ns(), until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    enum facet_status status;

    do {
        uint64_t left = until > now ? until - now : 0;

        release_pins_of_all_vgpus(vgpu->driver);
        status =
            facet_space_pin(vgpu->space, addresses, count, left < PIN_STEP_NS ? left : PIN_STEP_NS, ret_pin, error);
        now = facet_clock_now_ns();
    } while (status == FACET_TIMEOUT && !atomic_load(&vgpu->ending) && now < until);
    return status;
}

enum facet_status facet_vgpu_pin_all(struct facet_vgpu *vgpu, struct facet_pin **ret_pin, struct facet_error *error)
{
    return vgpu_swaps(vgpu) ? pin_until_vgpu_ends(vgpu, NULL, 0, FACET_VGPU_PIN_NS, ret_pin, error) : FACET_OK;
}

void facet_vgpu_pin_follow(struct facet_vgpu *vgpu, struct facet_pin *pin, uint64_t execution)
{
    struct facet_vgpu_pin *follower = pin && execution ? malloc(sizeof *follower) : NULL;

    if (!pin)
        return;
    if (!follower && execution) /* without a follower the launch must be over before the pin is released */
        (void)facet_vgpu_stream_drain(vgpu, execution);
    if (!follower) {
        facet_pin_release(pin);
        return;
    }
    follower->pin = pin;
    follower->stream = (uint32_t)(execution >> FACET_EXECUTION_SHIFT) - 1;
    follower->sequence = execution & ((UINT64_C(1) << FACET_EXECUTION_SHIFT) - 1);
    pthread_mutex_lock(&vgpu->pin_lock);
    follower->next = vgpu->pins;
    vgpu->pins = follower;
    pthread_mutex_unlock(&vgpu->pin_lock);
}

static struct facet_vgpu_pin *take_all_pins(struct facet_vgpu *vgpu)
{
    pthread_mutex_lock(&vgpu->pin_lock);
    struct facet_vgpu_pin *pins = vgpu->pins;

    vgpu->pins = NULL;
    pthread_mutex_unlock(&vgpu->pin_lock);
    return pins;
}

static bool is_launch_over(struct facet_vgpu *vgpu, const struct facet_vgpu_pin *pin)
{
    struct facet_vgpu_stream *stream = &vgpu->stream[pin->stream];

    pthread_mutex_lock(&stream->lock);
    bool over = stream->state.completed >= pin->sequence;

    if (!over) {
        enum facet_status status = facet_vgpu_stream_drain_records(vgpu, stream, NULL);

        over = stream->state.completed >= pin->sequence || status == FACET_DEVICE_LOST;
    }
    pthread_mutex_unlock(&stream->lock);
    return over;
}

/* Puts back each pin whose launch is not over: other threads may have added pins meanwhile. */
void facet_vgpu_pins_release(struct facet_vgpu *vgpu, bool all)
{
    struct facet_vgpu_pin *next;

    for (struct facet_vgpu_pin *pin = take_all_pins(vgpu); pin; pin = next) {
        next = pin->next;
        if (all || is_launch_over(vgpu, pin)) {
            facet_pin_release(pin->pin);
            free(pin);
            continue;
        }
        pthread_mutex_lock(&vgpu->pin_lock);
        pin->next = vgpu->pins;
        vgpu->pins = pin;
        pthread_mutex_unlock(&vgpu->pin_lock);
    }
}

/* ---- pins of the program ---- */

/* Returns the pin's number; 0: the vGPU has FACET_VGPU_PINS pins already, the most that a page can count. */
static uint64_t keep_program_pin(struct facet_vgpu *vgpu, struct facet_vgpu_pin *kept)
{
    uint64_t number = 0;

    pthread_mutex_lock(&vgpu->pin_lock);
    if (vgpu->program_pin_count < FACET_VGPU_PINS) {
        number = ++vgpu->last_program_pin;
        vgpu->program_pin_count++;
        kept->sequence = number;
        kept->next = vgpu->program_pins;
        vgpu->program_pins = kept;
    }
    pthread_mutex_unlock(&vgpu->pin_lock);
    return number;
}

/* Removes the pin with that number, or any pin for 0; NULL: not found. */
static struct facet_vgpu_pin *take_program_pin(struct facet_vgpu *vgpu, uint64_t number)
{
    struct facet_vgpu_pin **link, *kept;

    pthread_mutex_lock(&vgpu->pin_lock);
    for (link = &vgpu->program_pins; (kept = *link) && number && kept->sequence != number; link = &kept->next)
        ;
    if (kept) {
        *link = kept->next;
        vgpu->program_pin_count--;
    }
    pthread_mutex_unlock(&vgpu->pin_lock);
    return kept;
}

static void release_program_pin(struct facet_vgpu_pin *kept)
{
    facet_pin_release(kept->pin);
    free(kept);
}

void facet_vgpu_program_pins_release(struct facet_vgpu *vgpu)
{
    struct facet_vgpu_pin *kept;

    while ((kept = take_program_pin(vgpu, 0)))
        release_program_pin(kept);
}

enum facet_status facet_vgpu_pin(struct facet_driver *driver, uint32_t id, const uint64_t *addresses, uint32_t count,
                                 uint64_t timeout_ns, uint64_t *ret_pin, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    if (count > 0)
        FACET_NEED(addresses, error);
    FACET_NEED(ret_pin, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    struct facet_vgpu_pin *kept = calloc(1, sizeof *kept);
    if (!kept)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a pin");
    uint64_t number = 0;
    status = pin_until_vgpu_ends(vgpu, addresses, count, timeout_ns, &kept->pin, error);
    if (status == FACET_OK && !(number = keep_program_pin(vgpu, kept)))
        status = facet_error_set(error, FACET_QUOTA, "vGPU %" PRIu32 " keeps %u pins already, the most; unpin first",
                                 id, FACET_VGPU_PINS);
    if (number)
        *ret_pin = number;
    else
        release_program_pin(kept);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_unpin(struct facet_driver *driver, uint32_t id, uint64_t pin, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    struct facet_vgpu_pin *kept = pin ? take_program_pin(vgpu, pin) : NULL;
    if (!kept)
        return facet_error_argument(error, FACET_NOT_FOUND, "pin",
                                    "pin %" PRIu64 ": expected a pin that vGPU %" PRIu32 " keeps", pin, id);
    release_program_pin(kept);
    return FACET_OK;
}
