/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: that what a launch may use is on the device while it is queued or runs, where memory swaps.
 * Never: holds a pin longer than its launch: others wait for it.
 *
 * A kernel may follow any pointer that it finds in memory, so all that its vGPU has is pinned, by each launch anew: so
 * src/memory can make new launches wait when it is others' turn.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "vgpu/driver.h"

#define STEP_NS                                                                                                        \
    (FACET_NS_PER_S / 20) /* how long a launch waits before it looks who is done, and whether its vGPU ends */

/* A pin and the launch that needs it. */
struct facet_vgpu_pin {
    struct facet_vgpu_pin *next;
    struct facet_pin *pin;
    uint32_t stream;
    uint64_t sequence;
};

static bool swaps(const struct facet_vgpu *vgpu)
{
    return vgpu->space && vgpu->device->swap_bytes > 0;
}

/* The driver's thread does so too; but it may be the one that waits here. */
static void release_of_all(struct facet_driver *driver)
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

enum facet_status facet_vgpu_pin_all(struct facet_vgpu *vgpu, struct facet_pin **ret_pin, struct facet_error *error)
{
    enum facet_status status = FACET_TIMEOUT;

    if (!swaps(vgpu))
        return FACET_OK;
    uint64_t until = facet_clock_now_ns() + FACET_VGPU_PIN_NS;
    while (status == FACET_TIMEOUT && !atomic_load(&vgpu->ending) && facet_clock_now_ns() < until) {
        release_of_all(vgpu->driver);
        status = facet_space_pin(vgpu->space, NULL, 0, STEP_NS, ret_pin, error);
    }
    return status;
}

void facet_vgpu_pin_follow(struct facet_vgpu *vgpu, struct facet_pin *pin, uint64_t execution)
{
    struct facet_vgpu_pin *follower = pin && execution ? malloc(sizeof *follower) : NULL;

    if (!pin)
        return;
    if (!follower && execution) /* without a follower the launch must be over before the pin goes */
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

static struct facet_vgpu_pin *take_all(struct facet_vgpu *vgpu)
{
    pthread_mutex_lock(&vgpu->pin_lock);
    struct facet_vgpu_pin *pins = vgpu->pins;

    vgpu->pins = NULL;
    pthread_mutex_unlock(&vgpu->pin_lock);
    return pins;
}

static bool is_over(struct facet_vgpu *vgpu, const struct facet_vgpu_pin *pin)
{
    struct facet_vgpu_stream *stream = &vgpu->stream[pin->stream];

    pthread_mutex_lock(&stream->lock);
    bool over = stream->state.completed >= pin->sequence;

    if (!over) {
        enum facet_status status = facet_vgpu_stream_harvest(vgpu, stream, NULL);

        over = stream->state.completed >= pin->sequence || status == FACET_DEVICE_LOST;
    }
    pthread_mutex_unlock(&stream->lock);
    return over;
}

/* Those that are not over are put back: others may have been added meanwhile. */
void facet_vgpu_pins_release(struct facet_vgpu *vgpu, bool all)
{
    struct facet_vgpu_pin *next;

    for (struct facet_vgpu_pin *pin = take_all(vgpu); pin; pin = next) {
        next = pin->next;
        if (all || is_over(vgpu, pin)) {
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
