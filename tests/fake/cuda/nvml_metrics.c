/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the measurements of the fake libnvidia-ml.so.1: utilization, temperature, power, clocks, memory errors.
 * Never: returns a number that contradicts the shared state: a busy device is warm, and draws power.
 */
#include <time.h>

#include "nvml_fake.h"

/*
 * The real library samples several times a second by itself; the fake samples at a call, at most once in this
 * period.
 */
#define PERIOD_NS UINT64_C(100000000)

#define IDLE_MW   UINT64_C(70000)
#define LOAD_MW   UINT64_C(630000) /* in addition, when always busy */
#define IDLE_C    32u
#define LOAD_C    36u
#define HOT_C     90u
#define IDLE_MHZ  345u
#define SM_MHZ    1980u
#define MEM_MHZ   2619u
#define VIDEO_MHZ 1545u

static uint64_t busy_until(uint32_t device, uint64_t now)
{
    struct fake_engine *engine = &fake_state()->devices[device].engine;
    uint64_t until = atomic_load(&engine->busy_until_ns), submitted = atomic_load(&engine->busy_ns);
    uint64_t ahead = until > now ? until - now : 0;

    return submitted > ahead ? submitted - ahead : 0;
}

uint64_t fake_busy_ns(uint32_t device)
{
    return busy_until(device, fake_now_ns());
}

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void begin_period(struct fake_sample *sample, uint64_t busy_ns, uint64_t now_ns)
{
    sample->busy_ns = busy_ns;
    sample->sampled_ns = now_ns;
}

/* Ends the period when it is long enough. A count lower than before is a new process's, whose first period begins. */
static void step_sample(struct fake_sample *sample, uint64_t busy_ns, uint64_t now)
{
    uint64_t period = now - sample->sampled_ns;

    if (sample->sampled_ns == 0 || busy_ns < sample->busy_ns) {
        *sample = (struct fake_sample){0};
        begin_period(sample, busy_ns, now);
    } else if (period >= PERIOD_NS) {
        uint64_t percent = (busy_ns - sample->busy_ns) * 100 / period;

        sample->percent = percent > 100 ? 100 : (uint32_t)percent;
        sample->stamp_us = wall_us();
        begin_period(sample, busy_ns, now);
    }
}

struct fake_sample fake_sample_device(uint32_t device)
{
    struct fake_sample *sample = &fake_state()->management.samples[device];

    fake_lock();
    uint64_t now = fake_now_ns();
    step_sample(sample, busy_until(device, now), now);
    struct fake_sample copy = *sample;
    fake_unlock();
    return copy;
}

struct fake_sample fake_sample_process(uint32_t slot, uint32_t device)
{
    struct fake_state *state = fake_state();
    struct fake_sample *sample = &state->management.process_samples[slot][device];

    fake_lock();
    step_sample(sample, atomic_load(&state->processes[slot].devices[device].busy_ns), fake_now_ns());
    struct fake_sample copy = *sample;
    fake_unlock();
    return copy;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *utilization)
{
    FAKE_ENTER_GPU(handle, utilization, device);
    if (fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    uint32_t percent = fake_sample_device(device).percent;
    *utilization = (nvmlUtilization_t){.gpu = percent, .memory = percent / 2};
    return NVML_SUCCESS;
}

static nvmlReturn_t idle_engine(nvmlDevice_t handle, unsigned *percent, unsigned *period_us)
{
    FAKE_ENTER_GPU(handle, percent && period_us, device);
    (void)device;
    *percent = 0;
    *period_us = (unsigned)(PERIOD_NS / 1000);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t handle, unsigned *percent, unsigned *period_us)
{
    return idle_engine(handle, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t handle, unsigned *percent, unsigned *period_us)
{
    return idle_engine(handle, percent, period_us);
}

unsigned fake_celsius(uint32_t device)
{
    uint32_t set_celsius = atomic_load(&fake_state()->management.health[device].celsius);
    return set_celsius ? set_celsius : IDLE_C + fake_sample_device(device).percent * LOAD_C / 100;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, int sensor, unsigned *celsius)
{
    FAKE_ENTER_GPU(handle, celsius && sensor == NVML_TEMPERATURE_GPU, device);
    *celsius = fake_celsius(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, int threshold, unsigned *celsius)
{
    FAKE_ENTER_GPU(handle, celsius, device);
    (void)device;
    if (threshold != NVML_TEMPERATURE_THRESHOLD_SHUTDOWN && threshold != NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        return NVML_ERROR_NOT_SUPPORTED;
    *celsius = threshold == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? HOT_C + 5 : HOT_C;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t handle, unsigned *percent)
{
    FAKE_ENTER_GPU(handle, percent, device);
    (void)device;
    return NVML_ERROR_NOT_SUPPORTED;
}

unsigned fake_power_mw(uint32_t device)
{
    return (unsigned)(IDLE_MW + LOAD_MW * fake_sample_device(device).percent / 100);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned *milliwatts)
{
    FAKE_ENTER_GPU(handle, milliwatts, device);
    *milliwatts = fake_power_mw(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t handle, unsigned *milliwatts)
{
    FAKE_ENTER_GPU(handle, milliwatts, device);
    (void)device;
    *milliwatts = (unsigned)(IDLE_MW + LOAD_MW);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned *milliwatts)
{
    return nvmlDeviceGetPowerManagementLimit(handle, milliwatts);
}

/* Milliwatts times nanoseconds are 10^-12 J: a millijoule is 10^9 of them. */
uint64_t fake_energy_mj(uint32_t device)
{
    return fake_now_ns() / 1000000 * IDLE_MW / 1000 + fake_busy_ns(device) / 1000000 * LOAD_MW / 1000;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle, unsigned long long *millijoules)
{
    FAKE_ENTER_GPU(handle, millijoules, device);
    *millijoules = fake_energy_mj(device);
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(int clock, bool busy, unsigned *ret_mhz)
{
    switch (clock) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
        *ret_mhz = busy ? SM_MHZ : IDLE_MHZ;
        return NVML_SUCCESS;
    case NVML_CLOCK_MEM:
        *ret_mhz = MEM_MHZ;
        return NVML_SUCCESS;
    case NVML_CLOCK_VIDEO:
        *ret_mhz = busy ? VIDEO_MHZ : IDLE_MHZ;
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_INVALID_ARGUMENT;
    }
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, int clock, unsigned *mhz)
{
    FAKE_ENTER_GPU(handle, mhz, device);
    return clock_of(clock, fake_sample_device(device).percent != 0, mhz);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, int clock, unsigned *mhz)
{
    FAKE_ENTER_GPU(handle, mhz, device);
    (void)device;
    return clock_of(clock, true, mhz);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle, unsigned long long *reasons)
{
    FAKE_ENTER_GPU(handle, reasons, device);
    *reasons = atomic_load(&fake_state()->management.health[device].throttle);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t handle, int *state)
{
    FAKE_ENTER_GPU(handle, state, device);
    *state = fake_sample_device(device).percent ? NVML_PSTATE_0 : NVML_PSTATE_8;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, int *mode)
{
    FAKE_ENTER_GPU(handle, mode, device);
    *mode = (int)atomic_load(&fake_state()->management.compute_mode[device]);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t handle, int mode)
{
    FAKE_ENTER_GPU(handle,
                   mode == NVML_COMPUTEMODE_DEFAULT || mode == NVML_COMPUTEMODE_PROHIBITED ||
                       mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
                   device);
    atomic_store(&fake_state()->management.compute_mode[device], (uint32_t)mode);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, int *mode)
{
    FAKE_ENTER_GPU(handle, mode, device);
    (void)device;
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, int *current, int *pending)
{
    FAKE_ENTER_GPU(handle, current && pending, device);
    (void)device;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

/* All errors of the fake are memory errors since the driver was loaded, so volatile and aggregate counts are equal. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, int type, int counter, unsigned long long *count)
{
    FAKE_ENTER_GPU(handle,
                   count && (counter == NVML_VOLATILE_ECC || counter == NVML_AGGREGATE_ECC) &&
                       (type == NVML_MEMORY_ERROR_TYPE_CORRECTED || type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
                   device);
    struct fake_health *health = &fake_state()->management.health[device];
    *count = atomic_load(type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? &health->corrected : &health->uncorrected);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t handle, int type, int counter, int location,
                                             unsigned long long *count)
{
    unsigned long long total;
    nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(handle, type, counter, count ? &total : NULL);

    if (result == NVML_SUCCESS)
        *count = location == NVML_MEMORY_LOCATION_DRAM ? total : 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned *corrected, unsigned *uncorrected,
                                       unsigned *pending, unsigned *failed)
{
    FAKE_ENTER_GPU(handle, corrected && uncorrected && pending && failed, device);
    struct fake_health *health = &fake_state()->management.health[device];
    *corrected = atomic_load(&health->rows_corrected);
    *uncorrected = atomic_load(&health->rows_uncorrected);
    *pending = atomic_load(&health->rows_pending);
    *failed = atomic_load(&health->rows_failed);
    return NVML_SUCCESS;
}
