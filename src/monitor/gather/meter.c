/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the registry's tables of units and of meters, and the rules that a meter must fulfil. Never: measures. */
#include "monitor/gather/meter.h"
#include "base/sized.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KEY_MAX      47u
#define NAME_MAX     100u
#define DECIMALS_MAX 9u

#define LEVELS (FACET_STATISTIC_MIN | FACET_STATISTIC_MAX | FACET_STATISTIC_AVERAGE | FACET_STATISTIC_DIFF)

static const char *const units[FACET_UNITS] = {
    [FACET_UNIT_COUNT] = "count",
    [FACET_UNIT_BYTES] = "bytes",
    [FACET_UNIT_PERCENT] = "percent",
    [FACET_UNIT_NANOSECONDS] = "nanoseconds",
    [FACET_UNIT_MILLISECONDS] = "milliseconds",
    [FACET_UNIT_BITS_PER_SECOND] = "bits_per_second",
    [FACET_UNIT_BYTES_PER_SECOND] = "bytes_per_second",
    [FACET_UNIT_COUNT_PER_SECOND] = "count_per_second",
    [FACET_UNIT_WATTS] = "watts",
    [FACET_UNIT_JOULES] = "joules",
    [FACET_UNIT_CELSIUS] = "celsius",
    [FACET_UNIT_HERTZ] = "hertz",
};

static const struct {
    const char *name;
    uint32_t unit;
} aliases[] = {
    {"msec", FACET_UNIT_MILLISECONDS},
    {"nsec", FACET_UNIT_NANOSECONDS},
    {"bps", FACET_UNIT_BITS_PER_SECOND},
};

static const char *const types[FACET_METER_TYPES] = {
    [FACET_METER_GAUGE] = "gauge",
    [FACET_METER_RATE] = "rate",
    [FACET_METER_UTILIZATION] = "utilization",
    [FACET_METER_ACCUMULATION] = "accumulation",
};

static const uint32_t allowed[FACET_METER_TYPES] = {
    [FACET_METER_GAUGE] = (1u << FACET_STATISTICS) - 1,
    [FACET_METER_RATE] = LEVELS,
    [FACET_METER_UTILIZATION] = LEVELS,
    [FACET_METER_ACCUMULATION] = FACET_STATISTIC_DIFF | FACET_STATISTIC_RATE,
};

static const char *const kinds[FACET_SUBJECT_KINDS] = {
    [FACET_SUBJECT_NODE] = "node",
    [FACET_SUBJECT_DEVICE] = "device",
    [FACET_SUBJECT_CONTAINER] = "container",
    [FACET_SUBJECT_PROCESS] = "process",
};

static const char *const statistics[FACET_STATISTICS] = {"min", "max", "sum", "average", "diff", "rate"};

static const char *const reasons[FACET_UNMEASURED_REASONS] = {
    [FACET_MEASURED] = "measured",
    [FACET_UNMEASURED_ABSENT] = "absent",
    [FACET_UNMEASURED_PERMISSION] = "permission",
    [FACET_UNMEASURED_MALFORMED] = "malformed",
    [FACET_UNMEASURED_OUT_OF_RANGE] = "out_of_range",
    [FACET_UNMEASURED_GONE] = "gone",
    [FACET_UNMEASURED_IO] = "io",
    [FACET_UNMEASURED_UNLIMITED] = "unlimited",
    [FACET_UNMEASURED_FIRST] = "first",
    [FACET_UNMEASURED_RESET] = "reset",
};

/* No sum for a gauge of the registry: its values are levels, whose sum means nothing. */
#define STATISTICS_GAUGE        (LEVELS | FACET_STATISTIC_RATE)
#define STATISTICS_RATE         LEVELS
#define STATISTICS_UTILIZATION  LEVELS
#define STATISTICS_ACCUMULATION (FACET_STATISTIC_DIFF | FACET_STATISTIC_RATE)

#define N (1u << FACET_SUBJECT_NODE)
#define D (1u << FACET_SUBJECT_DEVICE)
#define C (1u << FACET_SUBJECT_CONTAINER)
#define P (1u << FACET_SUBJECT_PROCESS)

static const struct facet_meter meters[GATHER_METER_COUNT] = {
#define METER(number, meter_key, meter_name, meter_type, meter_unit, digits, whose)                                    \
    [GATHER_##number] = {.size = sizeof(struct facet_meter),                                                           \
                         .type = FACET_METER_##meter_type,                                                             \
                         .unit = FACET_UNIT_##meter_unit,                                                              \
                         .decimals = (digits),                                                                         \
                         .statistics = STATISTICS_##meter_type,                                                        \
                         .subjects = (whose),                                                                          \
                         .key = (meter_key),                                                                           \
                         .name = (meter_name)},
    GATHER_METERS(METER)
#undef METER
};

#define NONE            GATHER_METER_COUNT
#define PER_SECOND      (INT64_C(1000) * 1000000000) /* of a count per nanosecond, in thousandths */
#define BITS_PER_SECOND (INT64_C(8) * PER_SECOND)    /* of a byte per nanosecond, in thousandths */
#define OF_TIME         (INT64_C(100) * 1000) /* of busy nanoseconds per nanosecond, in thousandths of a percent */
#define WHOLE           (INT64_C(100) * 1000) /* 100 percent */

static const struct gather_derived derived[] = {
    {GATHER_CPU_UTILIZATION, GATHER_CPU_TIME, OF_TIME, 0, GATHER_CPU_LIMIT},
    {GATHER_DEVICE_UTILIZATION, GATHER_BUSY_TIME, OF_TIME, WHOLE, NONE},
    {GATHER_IO_READ_RATE, GATHER_IO_READ, PER_SECOND, 0, NONE},
    {GATHER_IO_WRITE_RATE, GATHER_IO_WRITE, PER_SECOND, 0, NONE},
    {GATHER_NET_RX_RATE, GATHER_NET_RX, BITS_PER_SECOND, 0, NONE},
    {GATHER_NET_TX_RATE, GATHER_NET_TX, BITS_PER_SECOND, 0, NONE},
    {GATHER_PCIE_RX_RATE, GATHER_PCIE_RX, PER_SECOND, 0, NONE},
    {GATHER_PCIE_TX_RATE, GATHER_PCIE_TX, PER_SECOND, 0, NONE},
};

const char *facet_unit_name(uint32_t unit)
{
    return unit < FACET_UNITS ? units[unit] : NULL;
}

static enum facet_status unknown_unit(const char *name, struct facet_error *error)
{
    char all[200] = "";

    for (uint32_t i = 0; i < FACET_UNITS; i++) {
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", units[i]);
    }
    return facet_error_argument(error, FACET_NOT_FOUND, "unit", "unit '%.40s': expected one of %s", name, all);
}

enum facet_status facet_unit_find(const char *name, uint32_t *ret_unit, struct facet_error *error)
{
    if (!name || !ret_unit)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "name", "expected a name, and room for the unit");
    for (uint32_t i = 0; i < FACET_UNITS; i++)
        if (strcasecmp(name, units[i]) == 0) {
            *ret_unit = i;
            return FACET_OK;
        }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcasecmp(name, aliases[i].name) == 0) {
            *ret_unit = aliases[i].unit;
            return FACET_OK;
        }
    return unknown_unit(name, error);
}

const char *facet_meter_type_name(uint32_t type)
{
    return type < FACET_METER_TYPES ? types[type] : NULL;
}

const char *facet_subject_kind_name(uint32_t kind)
{
    return kind < FACET_SUBJECT_KINDS ? kinds[kind] : NULL;
}

const char *facet_statistic_name(uint32_t statistic)
{
    for (uint32_t i = 0; i < FACET_STATISTICS; i++)
        if (statistic == 1u << i)
            return statistics[i];
    return NULL;
}

const char *facet_unmeasured_name(uint32_t reason)
{
    return reason < FACET_UNMEASURED_REASONS ? reasons[reason] : NULL;
}

uint32_t facet_meter_count(void)
{
    return GATHER_METER_COUNT;
}

const struct facet_meter *facet_meter_at(uint32_t index)
{
    return index < GATHER_METER_COUNT ? &meters[index] : NULL;
}

const struct facet_meter *facet_meter_find(const char *key)
{
    for (uint32_t i = 0; key && i < GATHER_METER_COUNT; i++)
        if (strcmp(meters[i].key, key) == 0)
            return &meters[i];
    return NULL;
}

const struct gather_derived *gather_derived_from(const struct facet_meter *source)
{
    for (size_t i = 0; i < sizeof derived / sizeof derived[0]; i++)
        if (source == &meters[derived[i].source])
            return &derived[i];
    return NULL;
}

uint32_t gather_statistics_of_type(uint32_t type)
{
    return type < FACET_METER_TYPES ? allowed[type] : 0;
}

/* ---- meters of callers ---- */

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_key(const char *key)
{
    size_t length = key ? strnlen(key, KEY_MAX + 1) : 0;

    if (length == 0 || length > KEY_MAX || !is_letter(key[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_letter(key[i]) && !(key[i] >= '0' && key[i] <= '9') && key[i] != '_')
            return false;
    return true;
}

/* Whether a key ends with a suffix that Prometheus' names get: two meters would then have one name. */
static bool ends_with(const char *key, const char *end)
{
    size_t length = strlen(key), tail = strlen(end);

    return length >= tail && strcmp(key + length - tail, end) == 0;
}

static bool is_name(const char *name)
{
    size_t length = name ? strnlen(name, NAME_MAX + 1) : 0;

    for (size_t i = 0; i < length; i++)
        if (name[i] < 0x20 || name[i] > 0x7e)
            return false;
    return length > 0 && length <= NAME_MAX;
}

static enum facet_status check_texts(const struct facet_meter *meter, struct facet_error *error)
{
    if (!is_key(meter->key) || ends_with(meter->key, "_capacity") || ends_with(meter->key, "_total"))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "key",
                                    "key '%.60s': expected 1 to %u lower-case letters, digits and '_', a letter first, "
                                    "not ending with _capacity or _total",
                                    meter->key ? meter->key : "", KEY_MAX);
    if (!is_name(meter->name))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "name",
                                    "meter '%s': name: expected 1 to %u printable ASCII characters", meter->key,
                                    NAME_MAX);
    return FACET_OK;
}

static enum facet_status refuse_meter(struct facet_error *error, const char *field, const char *key, uint32_t value,
                                      const char *expected)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, field, "meter '%s': %s %" PRIu32 ": expected %s", key,
                                field, value, expected);
}

enum facet_status facet_meter_check(const struct facet_meter *meter, struct facet_error *error)
{
    if (!meter || meter->size < sizeof *meter)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "meter", "meter: expected a struct of %zu bytes",
                                    sizeof *meter);
    FACET_NEED_KNOWN("meter", meter, error);
    enum facet_status status = check_texts(meter, error);

    if (status != FACET_OK)
        return status;
    const struct facet_meter *ours = facet_meter_find(meter->key);

    if (ours && ours != meter)
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "key",
                                    "key '%s': expected a key that no meter of the registry has", meter->key);
    if (meter->type >= FACET_METER_TYPES)
        return refuse_meter(error, "type", meter->key, meter->type, "0 to 3");
    if (meter->unit >= FACET_UNITS)
        return refuse_meter(error, "unit", meter->key, meter->unit, "one of enum facet_unit");
    if (meter->decimals > DECIMALS_MAX)
        return refuse_meter(error, "decimals", meter->key, meter->decimals, "0 to 9");
    if (meter->statistics & ~allowed[meter->type])
        return refuse_meter(error, "statistics", meter->key, meter->statistics, "only those that its type allows");
    if (meter->subjects == 0 || meter->subjects >> FACET_SUBJECT_KINDS)
        return refuse_meter(error, "subjects", meter->key, meter->subjects, "one kind of subject at least");
    return FACET_OK;
}
