/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the warnings about a virtual GPU that its program does not use; see run_advice.h. Never: prints more than one
 * line for each.
 */
#include "run_advice.h"

#include "limiter/entrance_cuda.h"
#include "limiter/entrance_hip.h"
#include "run_launcher.h"
#include "view.h"

/* The differences between GPUs of NVIDIA and of AMD. */
struct kind {
    bool (*is_of)(const char *address);
    const char *property; /* the device's property that says why programs find no GPU */
    const char *programs, *remedy;
    const char *beginning; /* the first charge of a program */
};

static const struct kind kinds[] = {
    {facet_entrance_is_cuda, "driver_error", "CUDA programs will find no GPU",
     "install the driver's libcuda.so.1; after an update of the driver, reboot", "a CUDA context"},
    {facet_entrance_is_hip, "hip_error", "HIP programs that bring no runtime of their own will find no GPU",
     "install ROCm's libamdhip64.so", "a HIP context"},
};

/* NULL: the device is of another kind, or the segment cannot be read. */
static const struct kind *kind_of(const json_t *vgpu)
{
    struct facet_segment_device device;

    if (facet_segment_read_device(view_text(vgpu, "segment"), &device, NULL) != FACET_OK)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].is_of(device.address))
            return &kinds[i];
    return NULL;
}

void run_advise_before(const struct command *self, struct client *client, const json_t *vgpu)
{
    const struct kind *kind = kind_of(vgpu);
    const char *id = view_text(vgpu, "device");
    CLIENT_CLEANUP_JSON json_t *device = NULL;

    if (!kind || client_call_in(client, "GET", "/v1/devices/", id, "", NULL, &device, NULL) != FACET_OK)
        return;
    const json_t *properties = json_object_get(device, "properties");
    if (view_has(properties, kind->property))
        command_warn(self, "device %s: %s: %s; %s", id, kind->programs, view_text(properties, kind->property),
                     kind->remedy);
}

void run_advise_after(const struct command *self, const json_t *vgpu, const struct facet_usage_totals *before)
{
    const struct kind *kind = kind_of(vgpu);
    struct facet_usage_totals after;
    char quota[VIEW_SIZE];

    if (!kind || facet_segment_read_totals(view_text(vgpu, "segment"), &after, NULL) != FACET_OK ||
        after.denied == before->denied || after.memory_peak_bytes)
        return;
    facet_format_size(view_number(vgpu, "memory_limit_bytes"), quota, sizeof quota);
    command_warn(self,
                 "%s: the memory quota, %s, is too small to use %s: the first allocation, as a rule %s of some hundred "
                 "MiB, was refused; give a larger quota by -m",
                 view_text(vgpu, "name"), quota, view_text(vgpu, "device"), kind->beginning);
}

bool run_advise_launcher(const struct command *self, char *const *command)
{
    struct run_launcher launcher;

    if (!run_launcher_find(command, &launcher))
        return false;
    command_warn(
        self,
        "%s %s: this virtual GPU's limits do not reach them; use 'facet run' inside instead (facet-run(1), OUT "
        "OF REACH)",
        launcher.name, launcher.description);
    return true;
}

void run_advise_unused(const struct command *self, const json_t *vgpu)
{
    struct facet_usage_totals after;

    if (facet_segment_read_totals(view_text(vgpu, "segment"), &after, NULL) != FACET_OK || after.slots_used)
        return;
    command_warn(
        self,
        "no program entered %s, so no limit applied: the command used no device, or one that the limits do not "
        "reach (facet-run(1), OUT OF REACH)",
        view_text(vgpu, "name"));
}
