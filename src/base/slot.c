/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: exact conversion of amounts from and to text, and the types of slots (facet/slot.h). Never: rounds. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <facet/slot.h>

#define DECIMALS     6
#define EXPONENT_MAX 40

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A parsed number: digits times 10 to the exponent. */
struct decimal {
    bool negative;
    bool any; /* a digit was read */
    bool overflow;
    uint64_t digits; /* without trailing zeros, which the exponent counts */
    int exponent;
    unsigned zeros; /* zeros that were read and are not in `digits` yet: they may be trailing ones */
};

static void add_digit(struct decimal *number, unsigned digit, bool after_point)
{
    number->any = true;
    number->exponent -= after_point;
    if (digit == 0) {
        number->zeros += number->digits != 0;
        number->exponent += number->digits == 0 ? 0 : 1;
        return;
    }
    for (unsigned i = 0; i < number->zeros && !number->overflow; i++)
        number->overflow = __builtin_mul_overflow(number->digits, 10u, &number->digits);
    number->exponent -= (int)number->zeros;
    number->zeros = 0;
    number->overflow = number->overflow || __builtin_mul_overflow(number->digits, 10u, &number->digits) ||
                       __builtin_add_overflow(number->digits, digit, &number->digits);
}

static const char *read_digits(const char *text, bool after_point, struct decimal *number)
{
    for (; is_digit(*text); text++)
        add_digit(number, (unsigned)(*text - '0'), after_point);
    return text;
}

/* False: the text is not an exponent as Python writes it. */
static bool read_exponent(const char *text, struct decimal *number)
{
    bool negative = *text == '-';
    int exponent = 0;

    text += *text == '-' || *text == '+';
    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++)
        exponent = exponent > EXPONENT_MAX ? exponent : exponent * 10 + (*text - '0');
    number->exponent += negative ? -exponent : exponent;
    return *text == '\0';
}

static bool read_number(const char *text, struct decimal *number)
{
    number->negative = *text == '-';
    text += *text == '-';
    text = read_digits(text, false, number);
    if (*text == '.')
        text = read_digits(text + 1, true, number);
    if (!number->any)
        return false;
    return *text == 'e' || *text == 'E' ? read_exponent(text + 1, number) : *text == '\0';
}

/* The number in micro-units; false when it is above INT64_MAX. */
static bool scale_decimal(const struct decimal *number, int64_t *ret_amount)
{
    uint64_t amount = number->digits;

    if (number->overflow)
        return false;
    for (int power = number->exponent + DECIMALS; power > 0 && amount; power--)
        if (__builtin_mul_overflow(amount, 10u, &amount))
            return false;
    if (amount > INT64_MAX)
        return false;
    *ret_amount = (int64_t)amount;
    return true;
}

enum facet_status facet_amount_parse(const char *text, const char *argument, int64_t *ret_amount,
                                     struct facet_error *error)
{
    struct decimal number = {0};
    const char *name = argument ? argument : "amount";
    int64_t amount = 0;

    if (!text || !read_number(text, &number))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s '%.40s': expected a decimal number", name,
                                    text ? text : "");
    if (number.negative && number.digits)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, name, "%s '%.40s' is negative: expected 0 or more", name,
                                    text);
    if (number.digits && number.exponent < -DECIMALS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, name, "%s '%.40s': expected at most %d decimals", name,
                                    text, DECIMALS);
    if (!scale_decimal(&number, &amount))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, name,
                                    "%s '%.40s': expected at most 9223372036854.775807", name, text);
    *ret_amount = amount;
    return FACET_OK;
}

char *facet_amount_format_places(int64_t amount, uint32_t places, char *buffer, size_t size)
{
    uint64_t magnitude = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
    uint64_t whole = magnitude / (uint64_t)FACET_AMOUNT_ONE, part = magnitude % (uint64_t)FACET_AMOUNT_ONE;
    int min = places < DECIMALS ? (int)places : DECIMALS, decimals = DECIMALS;

    for (; decimals > min && part % 10 == 0; part /= 10)
        decimals--;
    if (decimals > 0)
        snprintf(buffer, size, "%s%" PRIu64 ".%0*" PRIu64, amount < 0 ? "-" : "", whole, decimals, part);
    else
        snprintf(buffer, size, "%s%" PRIu64, amount < 0 ? "-" : "", whole);
    return buffer;
}

char *facet_amount_format(int64_t amount, char *buffer, size_t size)
{
    return facet_amount_format_places(amount, 0, buffer, size);
}

const char *facet_slot_type_name(uint32_t type)
{
    static const char *const names[] = {"count", "bytes", "unique", "unified"};

    return type < sizeof names / sizeof names[0] ? names[type] : NULL;
}
