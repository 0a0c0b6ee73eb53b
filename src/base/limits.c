/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading and checking limits. Never: floating point; "0.3" is exactly 300 milli. */
#include <facet/limits.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SIZE_EXPECTED    "a size such as 268435456, 512M, 1.5G or 50%"
#define BYTES_EXPECTED   "a size such as 268435456, 512M or 1.5G" /* where no total is known that 50% could refer to */
#define COMPUTE_EXPECTED "REQUEST[:LIMIT], each such as 30, 30% or 0.3"

/* All refusals have the same form: the given text, then the expected one. */
static enum facet_status refuse_limit(struct facet_error *error, enum facet_status status, const char *argument,
                                      const char *text, const char *expected)
{
    return facet_error_argument(error, status, argument, "%s '%.40s': expected %s", argument, text ? text : "",
                                expected);
}

/* A product of two 64-bit amounts. */
typedef unsigned __int128 wide;

/* An unsigned decimal number. Digits past the ninth after the point are read and ignored: amounts round down. */
struct decimal {
    uint64_t whole;
    uint32_t nanos; /* the fraction, in 10^-9 */
    bool point;
    bool huge;       /* the whole part does not fit */
    const char *end; /* the rest of the text */
};

#define NANOS_WHOLE UINT32_C(1000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* False when `text` does not begin with a number: digits, then perhaps a point and digits. */
static bool read_decimal(const char *text, struct decimal *ret_number)
{
    struct decimal number = {0};
    uint32_t place = NANOS_WHOLE / 10;

    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++)
        number.huge |= __builtin_mul_overflow(number.whole, UINT64_C(10), &number.whole) ||
                       __builtin_add_overflow(number.whole, (uint64_t)(*text - '0'), &number.whole);
    if (*text == '.') {
        number.point = true;
        if (!is_digit(*++text))
            return false;
        for (; is_digit(*text); text++, place /= 10)
            number.nanos += (uint32_t)(*text - '0') * place;
    }
    number.end = text;
    *ret_number = number;
    return true;
}

/* number * unit / divisor, rounded down; false when it does not fit. */
static bool scale_decimal(const struct decimal *number, uint64_t unit, uint32_t divisor, uint64_t *ret_amount)
{
    wide whole = (wide)number->whole * unit;

    /* After this test `whole` has at most 71 bits, so the sums below stay within 128 bits. */
    if (number->huge || whole > (wide)UINT64_MAX * divisor)
        return false;
    wide amount = (whole * NANOS_WHOLE + (wide)number->nanos * unit) / ((wide)NANOS_WHOLE * divisor);
    if (amount > UINT64_MAX)
        return false;
    *ret_amount = (uint64_t)amount;
    return true;
}

void facet_limits_init(struct facet_limits *limits)
{
    *limits = (struct facet_limits){
        .compute_limit_milli = FACET_MILLI_WHOLE, .mode = FACET_MODE_SOFT, .priority = FACET_PRIORITY_NORMAL};
}

/* The unit of a suffix: "", "B", or K, M, G, T, P, E alone or with "iB", in either case; 0 when unknown. */
static uint64_t unit_of(const char *suffix)
{
    static const char letters[] = "KMGTPE";

    if (*suffix == '\0' || strcasecmp(suffix, "B") == 0)
        return 1;
    for (unsigned i = 0; letters[i]; i++)
        if (strncasecmp(suffix, &letters[i], 1) == 0 && (suffix[1] == '\0' || strcasecmp(suffix + 1, "iB") == 0))
            return UINT64_C(1) << (10 * (i + 1));
    return 0;
}

static bool is_above(const struct decimal *number, uint64_t max)
{
    return number->huge || number->whole > max || (number->whole == max && number->nanos > 0);
}

static enum facet_status parse_percent(const struct decimal *number, const char *text, const char *argument,
                                       uint64_t whole_bytes, uint64_t *ret_bytes, struct facet_error *error)
{
    if (whole_bytes == 0)
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, text, BYTES_EXPECTED);
    if (is_above(number, 100) || !scale_decimal(number, whole_bytes, 100, ret_bytes))
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, text, "at most 100%");
    return FACET_OK;
}

static enum facet_status parse_bytes(const struct decimal *number, const char *text, const char *argument,
                                     const char *expected, uint64_t *ret_bytes, struct facet_error *error)
{
    uint64_t unit = unit_of(number->end);

    if (unit == 0 || (unit == 1 && number->point))
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, text, expected);
    if (!scale_decimal(number, unit, 1, ret_bytes))
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, text, "less than 16 EiB");
    return FACET_OK;
}

enum facet_status facet_parse_size(const char *text, const char *argument, uint64_t whole_bytes, uint64_t *ret_bytes,
                                   struct facet_error *error)
{
    struct decimal number;
    enum facet_status status;
    uint64_t bytes = 0;

    const char *expected = whole_bytes ? SIZE_EXPECTED : BYTES_EXPECTED;

    if (!text || !read_decimal(text, &number))
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, text, expected);
    if (strcmp(number.end, "%") == 0)
        status = parse_percent(&number, text, argument, whole_bytes, &bytes, error);
    else
        status = parse_bytes(&number, text, argument, expected, &bytes, error);
    if (status != FACET_OK)
        return status;
    if (bytes == 0)
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, text, "at least one byte");
    *ret_bytes = bytes;
    return FACET_OK;
}

/* Reads one side of REQUEST:LIMIT, which must end at `end`. */
static enum facet_status parse_milli(const char *text, const char *end, const char *argument, const char *whole_text,
                                     uint32_t *ret_milli, struct facet_error *error)
{
    struct decimal number;
    uint64_t milli;

    if (!read_decimal(text, &number) || number.end + (*number.end == '%') != end)
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, whole_text, COMPUTE_EXPECTED);
    /* "0.3" and "1.0" are fractions of a device; "1", "1.5" and "0.3%" are percentages. */
    bool fraction = number.point && *number.end != '%' && !is_above(&number, 1);
    if (!fraction && is_above(&number, 100))
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, whole_text, "at most 100%");
    if (!scale_decimal(&number, fraction ? FACET_MILLI_WHOLE : FACET_MILLI_WHOLE / 100, 1, &milli) || milli == 0)
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, whole_text, "at least 0.1%");
    *ret_milli = (uint32_t)milli;
    return FACET_OK;
}

enum facet_status facet_parse_compute(const char *text, const char *argument, uint32_t *ret_request_milli,
                                      uint32_t *ret_limit_milli, struct facet_error *error)
{
    const char *whole = text ? text : "";
    const char *colon = strchr(whole, ':');
    const char *end = whole + strlen(whole);
    uint32_t request, limit = FACET_MILLI_WHOLE;

    enum facet_status status = parse_milli(whole, colon ? colon : end, argument, whole, &request, error);
    if (status == FACET_OK && colon)
        status = parse_milli(colon + 1, end, argument, whole, &limit, error);
    if (status != FACET_OK)
        return status;
    if (limit < request)
        return refuse_limit(error, FACET_OUT_OF_RANGE, argument, whole, "a limit that is not below the request");
    *ret_request_milli = request;
    *ret_limit_milli = limit;
    return FACET_OK;
}

static const char *const mode_names[] = {
    [FACET_MODE_SHARED] = "shared",
    [FACET_MODE_SOFT] = "soft",
    [FACET_MODE_HARD] = "hard",
    [FACET_MODE_PARTITIONED] = "partitioned",
};

static const char *const priority_names[] = {
    [FACET_PRIORITY_LOW] = "low",
    [FACET_PRIORITY_NORMAL] = "normal",
    [FACET_PRIORITY_HIGH] = "high",
};

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* The place of `text` among `names`; `count` when it is none of them. */
static uint32_t index_of_name(const char *text, const char *const *names, uint32_t count)
{
    uint32_t i = 0;

    while (i < count && (!text || strcmp(names[i], text) != 0))
        i++;
    return i;
}

const char *facet_mode_name(enum facet_mode mode)
{
    return (uint32_t)mode < LENGTH(mode_names) ? mode_names[mode] : NULL;
}

const char *facet_priority_name(enum facet_priority priority)
{
    return (uint32_t)priority < LENGTH(priority_names) ? priority_names[priority] : NULL;
}

enum facet_status facet_parse_mode(const char *text, const char *argument, uint32_t *ret_mode,
                                   struct facet_error *error)
{
    uint32_t mode = index_of_name(text, mode_names, LENGTH(mode_names));

    if (mode == LENGTH(mode_names))
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, text, "shared, soft, hard or partitioned");
    *ret_mode = mode;
    return FACET_OK;
}

enum facet_status facet_parse_priority(const char *text, const char *argument, uint32_t *ret_priority,
                                       struct facet_error *error)
{
    uint32_t priority = index_of_name(text, priority_names, LENGTH(priority_names));

    if (priority == LENGTH(priority_names))
        return refuse_limit(error, FACET_INVALID_ARGUMENT, argument, text, "low, normal or high");
    *ret_priority = priority;
    return FACET_OK;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

enum facet_status facet_check_name(const char *name, const char *argument, struct facet_error *error)
{
    bool good = name && is_letter_or_digit(name[0]);
    size_t length = good ? strlen(name) : 0;

    for (size_t i = 1; good && i < length; i++)
        good = is_letter_or_digit(name[i]) || strchr("._-", name[i]);
    if (good && length < FACET_NAME_SIZE)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, argument,
                                "%s '%.40s': expected a letter or digit, then letters, digits, '.', '_' or '-', at "
                                "most %u in all",
                                argument, name ? name : "", FACET_NAME_SIZE - 1);
}

static enum facet_status check_compute(const struct facet_limits *limits, struct facet_error *error)
{
    if (limits->compute_limit_milli == 0 || limits->compute_limit_milli > FACET_MILLI_WHOLE)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "compute",
                                    "compute limit %" PRIu32 " milli: expected 1 to %u", limits->compute_limit_milli,
                                    FACET_MILLI_WHOLE);
    if (limits->compute_request_milli > limits->compute_limit_milli)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "compute",
                                    "compute request %" PRIu32 " milli: expected at most the limit, %" PRIu32,
                                    limits->compute_request_milli, limits->compute_limit_milli);
    return FACET_OK;
}

enum facet_status facet_limits_check(const struct facet_limits *limits, uint64_t device_memory_bytes,
                                     struct facet_error *error)
{
    char asked[16], whole[16];

    if (limits->memory_bytes > device_memory_bytes)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "memory",
                                    "memory %s (%" PRIu64 " bytes): expected at most the device's %s (%" PRIu64 ")",
                                    facet_format_size(limits->memory_bytes, asked, sizeof asked), limits->memory_bytes,
                                    facet_format_size(device_memory_bytes, whole, sizeof whole), device_memory_bytes);
    if (!facet_mode_name((enum facet_mode)limits->mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "mode",
                                    "mode %" PRIu32 ": expected a value of enum facet_mode", limits->mode);
    if (!facet_priority_name((enum facet_priority)limits->priority))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "priority",
                                    "priority %" PRIu32 ": expected a value of enum facet_priority", limits->priority);
    return check_compute(limits, error);
}

/* Bytes in tenths of a power of 1024, rounded to the nearest. */
static wide tenths_of(uint64_t bytes, unsigned power)
{
    wide half = power ? (wide)1 << (10 * power - 1) : 0;

    return ((wide)bytes * 10 + half) >> (10 * power);
}

char *facet_format_size(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned power = 0;

    /* Compared after rounding: 1023.96 MiB is "1 GiB", not "1024 MiB". */
    while (power + 1 < LENGTH(units) && tenths_of(bytes, power) >= 10240)
        power++;

    unsigned tenths = (unsigned)tenths_of(bytes, power);
    if (tenths % 10 == 0)
        snprintf(buffer, size, "%u %s", tenths / 10, units[power]);
    else
        snprintf(buffer, size, "%u.%u %s", tenths / 10, tenths % 10, units[power]);
    return buffer;
}
