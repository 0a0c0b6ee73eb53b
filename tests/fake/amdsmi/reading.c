/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the measurements of the fake libamd_smi.so: memory, power, temperature, clocks, activity, errors, processes.
 * Never: returns a number that contradicts the shared state: a busy device is warm, and draws power.
 */
#include "fake.h"

#define IDLE_W     140u
#define LOAD_W     610u /* in addition, when busy */
#define IDLE_C     40
#define LOAD_C     30 /* in addition, when busy */
#define IDLE_MHZ   132u
#define LOAD_MHZ   2100u
#define MEMORY_MHZ 1300u
#define LIMIT_W    750u
#define NOT_KNOWN  UINT32_MAX
#define RESOLUTION 15.3F /* microjoules per count of the energy counter */

bool fake_is_busy(uint32_t device)
{
    return atomic_load(&fake_state()->devices[device].engine.busy_until_ns) > fake_now_ns();
}

uint64_t fake_busy_ns(uint32_t device)
{
    struct fake_engine *engine = &fake_state()->devices[device].engine;
    uint64_t until = atomic_load(&engine->busy_until_ns), submitted = atomic_load(&engine->busy_ns),
             now = fake_now_ns();
    uint64_t ahead = until > now ? until - now : 0;

    return submitted > ahead ? submitted - ahead : 0;
}

/* --- memory --- */

static uint64_t memory_of(const struct fake_processor *processor)
{
    uint64_t total = fake_state()->devices[processor->device].memory_bytes;
    uint32_t parts = fake_parts(processor->device);

    return parts == fake_memory_parts(processor->device) ? total / parts : total;
}

amdsmi_status_t amdsmi_get_gpu_memory_total(amdsmi_processor_handle handle, int type, uint64_t *bytes)
{
    FAKE_ENTER(handle, bytes && type >= AMDSMI_MEM_TYPE_VRAM && type <= AMDSMI_MEM_TYPE_GTT, processor);
    *bytes = type == AMDSMI_MEM_TYPE_GTT ? UINT64_C(64) << 30 : memory_of(&processor);
    return AMDSMI_STATUS_SUCCESS;
}

/* Programs on the fake runtime run on the first part. */
amdsmi_status_t amdsmi_get_gpu_memory_usage(amdsmi_processor_handle handle, int type, uint64_t *bytes)
{
    FAKE_ENTER(handle, bytes && type >= AMDSMI_MEM_TYPE_VRAM && type <= AMDSMI_MEM_TYPE_GTT, processor);
    *bytes = type == AMDSMI_MEM_TYPE_GTT || processor.part ? 0 : fake_used(processor.device);
    return AMDSMI_STATUS_SUCCESS;
}

/* --- sensors --- */

amdsmi_status_t amdsmi_get_energy_count(amdsmi_processor_handle handle, uint64_t *count, float *resolution,
                                        uint64_t *timestamp)
{
    FAKE_ENTER(handle, count && resolution && timestamp, processor);
    uint64_t microjoules =
        (fake_now_ns() / 1000 * IDLE_W) / 1000 + (fake_busy_ns(processor.device) / 1000 * LOAD_W) / 1000;

    *resolution = RESOLUTION;
    *count = (uint64_t)((double)microjoules / (double)RESOLUTION);
    *timestamp = fake_now_ns();
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_power_info(amdsmi_processor_handle handle, amdsmi_power_info_t *info)
{
    FAKE_ENTER_STRUCT(handle, info, processor);
    uint32_t watts = IDLE_W + (fake_is_busy(processor.device) ? LOAD_W : 0);

    *info = (amdsmi_power_info_t){.socket_power = watts,
                                  .current_socket_power = watts,
                                  .average_socket_power = NOT_KNOWN,
                                  .power_limit = LIMIT_W};
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_clock_info(amdsmi_processor_handle handle, int type, amdsmi_clk_info_t *info)
{
    FAKE_ENTER_STRUCT(handle, info, processor);
    if (type != AMDSMI_CLK_TYPE_GFX && type != AMDSMI_CLK_TYPE_MEM)
        return AMDSMI_STATUS_NOT_SUPPORTED;
    if (type == AMDSMI_CLK_TYPE_MEM)
        *info = (amdsmi_clk_info_t){.clk = MEMORY_MHZ, .min_clk = MEMORY_MHZ, .max_clk = MEMORY_MHZ};
    else
        *info = (amdsmi_clk_info_t){
            .clk = fake_is_busy(processor.device) ? LOAD_MHZ : IDLE_MHZ, .min_clk = IDLE_MHZ, .max_clk = LOAD_MHZ};
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_activity(amdsmi_processor_handle handle, amdsmi_engine_usage_t *usage)
{
    FAKE_ENTER_STRUCT(handle, usage, processor);
    *usage = (amdsmi_engine_usage_t){.gfx_activity = fake_is_busy(processor.device) ? 100 : 0};
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_temp_metric(amdsmi_processor_handle handle, int sensor, int metric, int64_t *celsius)
{
    FAKE_ENTER_STRUCT(handle, celsius, processor);
    uint32_t set_celsius = atomic_load(&fake_state()->management.health[processor.device].celsius);

    /* GPUs like the MI300X have no edge sensor. */
    if ((sensor != AMDSMI_TEMPERATURE_TYPE_HOTSPOT && sensor != AMDSMI_TEMPERATURE_TYPE_VRAM) ||
        metric != AMDSMI_TEMP_CURRENT)
        return AMDSMI_STATUS_NOT_SUPPORTED;
    *celsius = set_celsius ? (int64_t)set_celsius : IDLE_C + (fake_is_busy(processor.device) ? LOAD_C : 0);
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_get_gpu_total_ecc_count(amdsmi_processor_handle handle, amdsmi_error_count_t *count)
{
    FAKE_ENTER_STRUCT(handle, count, processor);
    struct fake_health *health = &fake_state()->management.health[processor.device];

    *count = (amdsmi_error_count_t){.correctable_count = atomic_load(&health->corrected),
                                    .uncorrectable_count = atomic_load(&health->uncorrected)};
    return AMDSMI_STATUS_SUCCESS;
}

/* --- processes --- */

static void describe_process(uint32_t device, struct fake_process *process, amdsmi_proc_info_t *ret_info)
{
    uint32_t pid = atomic_load(&process->pid);
    bool computes = fake_is_busy(device) && fake_launches(&process->devices[device]);

    *ret_info = (amdsmi_proc_info_t){.pid = pid,
                                     .mem = fake_used_by(device, pid),
                                     .memory_usage = {.vram_mem = fake_used_by(device, pid)},
                                     .cu_occupancy = computes ? fake_state()->devices[device].units : 0};
    fake_text(ret_info->name, sizeof ret_info->name, "process %u", pid);
}

amdsmi_status_t amdsmi_get_gpu_process_list(amdsmi_processor_handle handle, uint32_t *count,
                                            amdsmi_proc_info_t *processes)
{
    FAKE_ENTER_STRUCT(handle, count, processor);
    struct fake_state *state = fake_state();
    uint32_t room = *count, process_total = 0;

    for (uint32_t slot = 0; slot < FAKE_PROCESSES && processor.part == 0; slot++) {
        struct fake_process *process = &state->processes[slot];

        if (!fake_used_by(processor.device, atomic_load(&process->pid)))
            continue;
        if (processes && process_total < room)
            describe_process(processor.device, process, &processes[process_total]);
        process_total++;
    }
    *count = process_total;
    return processes && process_total > room ? AMDSMI_STATUS_OUT_OF_RESOURCES : AMDSMI_STATUS_SUCCESS;
}
