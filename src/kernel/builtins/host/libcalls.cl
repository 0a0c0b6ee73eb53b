/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that code generators call where a processor lacks an instruction: before SSE4.1 for rounding, before
 * FMA for a * b + c rounded once, before F16C for halves; everywhere for dividing integers of 128 bits. An image needs
 * no library, so it contains them.
 *
 * Owns: facet_libcall_NAME, which facet_builtins_link_libcall() puts into a module as NAME. Results are exact, but a
 *       NaN may be another NaN.
 * Never: calls a builtin function, or contains code that a code generator turns into a call of one of these.
 */

#pragma OPENCL FP_CONTRACT OFF

/* --- rounding to whole numbers: numbers from 2^DIGITS on have no fraction ---------------------------------------- */

#define ROUNDINGS(T, BITS, f, DIGITS, BIAS)                                                                            \
    static T magnitude##f(T x)                                                                                         \
    {                                                                                                                  \
        return as_##T(as_##BITS(x) & ~((BITS)1 << (sizeof(BITS) * 8 - 1)));                                            \
    }                                                                                                                  \
    static T with_sign##f(T magnitude, T sign)                                                                         \
    {                                                                                                                  \
        return as_##T(as_##BITS(magnitude) | (as_##BITS(sign) & (BITS)1 << (sizeof(BITS) * 8 - 1)));                   \
    }                                                                                                                  \
    T facet_libcall_trunc##f(T x)                                                                                      \
    {                                                                                                                  \
        int exponent = (int)(as_##BITS(magnitude##f(x)) >> DIGITS) - BIAS;                                             \
                                                                                                                       \
        if (exponent >= DIGITS)                                                                                        \
            return x;                                                                                                  \
        return exponent < 0 ? with_sign##f(0, x) : as_##T(as_##BITS(x) & ~((((BITS)1 << DIGITS) - 1) >> exponent));    \
    }                                                                                                                  \
    T facet_libcall_floor##f(T x)                                                                                      \
    {                                                                                                                  \
        T whole = facet_libcall_trunc##f(x);                                                                           \
                                                                                                                       \
        return whole > x ? whole - 1 : whole;                                                                          \
    }                                                                                                                  \
    T facet_libcall_ceil##f(T x)                                                                                       \
    {                                                                                                                  \
        T whole = facet_libcall_trunc##f(x);                                                                           \
                                                                                                                       \
        return whole < x ? whole + 1 : whole;                                                                          \
    }                                                                                                                  \
    T facet_libcall_round##f(T x)                                                                                      \
    {                                                                                                                  \
        T whole = facet_libcall_trunc##f(x);                                                                           \
                                                                                                                       \
        return magnitude##f(x - whole) >= (T)0.5 ? whole + with_sign##f(1, x) : whole;                                 \
    }                                                                                                                  \
    T facet_libcall_rint##f(T x)                                                                                       \
    {                                                                                                                  \
        T big = (T)((BITS)1 << DIGITS), size = magnitude##f(x);                                                        \
                                                                                                                       \
        return size < big ? with_sign##f((size + big) - big, x) : x;                                                   \
    }                                                                                                                  \
    T facet_libcall_nearbyint##f(T x)                                                                                  \
    {                                                                                                                  \
        return facet_libcall_rint##f(x);                                                                               \
    }                                                                                                                  \
    T facet_libcall_roundeven##f(T x)                                                                                  \
    {                                                                                                                  \
        return facet_libcall_rint##f(x);                                                                               \
    }
ROUNDINGS(float, uint, f, 23, 127)
ROUNDINGS(double, ulong, , 52, 1023)

/* --- a * b + c, rounded once -------------------------------------------------------------------------------------- */

/* The sum of two doubles rounded to odd: the last bit is set if bits were lost, so that rounding again is right. */
static double add_to_odd(double a, double b)
{
    double sum = a + b, of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
    ulong bits = as_ulong(sum);

    if ((lost > 0 || lost < 0) && (bits & 1) == 0)
        bits += (lost > 0) == (sum > 0) ? 1 : -1;
    return as_double(bits);
}

/* A double holds the product of two floats exactly. */
float facet_libcall_fmaf(float a, float b, float c)
{
    return (float)add_to_odd((double)a * (double)b, c);
}

typedef unsigned __int128 wide;

/* (-1)^sign * digits * 2^exponent */
struct number {
    wide digits;
    int exponent;
    ulong sign;
};

/* For a finite number that is not zero; 2^52 <= digits < 2^53. */
static struct number take_apart(double x)
{
    ulong bits = as_ulong(x), digits = bits & 0xfffffffffffffUL;
    int exponent = (int)(bits >> 52 & 0x7ff), shift;

    if (exponent != 0)
        return (struct number){digits | 1UL << 52, exponent - 1075, bits >> 63};
    shift = __builtin_clzl(digits) - 11;
    return (struct number){digits << shift, -1074 - shift, bits >> 63};
}

/* Shifts to the right; the last bit is set if bits were lost. */
static wide shift_to_odd(wide digits, int count)
{
    if (count == 0)
        return digits;
    return count > 127 ? 1 : digits >> count | (digits << (128 - count) != 0);
}

/* Rounds to the nearest, ties to even; 2^127 <= digits. */
static double round_to_double(struct number x)
{
    int exponent = x.exponent + 127, tiny = exponent < -1022 ? -1022 - exponent : 0;
    ulong digits = (ulong)shift_to_odd(shift_to_odd(x.digits, 64), tiny), rest = digits & 0x7ff;
    ulong magnitude = (digits >> 11) + (rest > 0x400 || (rest == 0x400 && (digits >> 11 & 1)) ? 1 : 0);

    if (!tiny) /* the highest digit adds one to the exponent, and so does a carry */
        magnitude += (ulong)(exponent + 1022) << 52;
    if (exponent > 1023)
        magnitude = 0x7ffUL << 52;
    return as_double(x.sign << 63 | magnitude);
}

/* For numbers whose digits are not zero and less than 2^126. */
static double add_numbers(struct number x, struct number y)
{
    struct number sum = {x.digits + y.digits, x.exponent, x.sign};
    int zeros;

    if (x.sign != y.sign) {
        sum.digits = x.digits > y.digits ? x.digits - y.digits : y.digits - x.digits;
        sum.sign = x.digits > y.digits ? x.sign : y.sign;
    }
    if (sum.digits == 0)
        return 0;
    zeros = sum.digits >> 64 ? __builtin_clzl((ulong)(sum.digits >> 64)) : 64 + __builtin_clzl((ulong)sum.digits);
    sum.digits <<= zeros;
    sum.exponent -= zeros;
    return round_to_double(sum);
}

/* Neither zero, nor infinite, nor NaN. */
static bool is_usual(double x)
{
    ulong exponent = as_ulong(x) >> 52 & 0x7ff;

    return exponent != 0x7ff && as_ulong(x) << 1 != 0;
}

double facet_libcall_fma(double a, double b, double c)
{
    struct number x, y, z;
    int apart;

    if (!is_usual(a) || !is_usual(b))
        return a * b + c;
    if (!is_usual(c))
        return c == 0 ? a * b : c;
    x = take_apart(a), y = take_apart(b), z = take_apart(c);
    x = (struct number){x.digits * y.digits << 20, x.exponent + y.exponent - 20, x.sign ^ y.sign};
    /* Both get one exponent: the product's, unless the digits of c would then exceed 2^126. */
    apart = z.exponent - x.exponent;
    if (apart > 73) {
        z = (struct number){z.digits << 73, z.exponent - 73, z.sign};
        x = (struct number){shift_to_odd(x.digits, apart - 73), z.exponent, x.sign};
    } else {
        z.digits = apart < 0 ? shift_to_odd(z.digits, -apart) : z.digits << apart;
    }
    return add_numbers(x, z);
}

/* --- halves: as bits, and apart, since taking a half's sign would already be a call of these ---------------------- */

typedef _Float16 half_number;

static __attribute__((noinline)) ushort narrow(float x)
{
    uint sign = as_uint(x) >> 31, bits = as_uint(x) & 0x7fffffff;

    if (bits > 0x7f800000)
        return (ushort)(sign << 15 | 0x7e00);
    if (bits >= 0x477ff000) /* 65520 is as far from the largest half as from 2^16 */
        return (ushort)(sign << 15 | 0x7c00);
    if (bits < 0x38800000) /* halves below 2^-14 are as far apart as floats from 0.5 on */
        return (ushort)(sign << 15 | (as_uint(as_float(bits) + 0.5f) - 0x3f000000));
    return (ushort)(sign << 15 | (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13);
}

static __attribute__((noinline)) float widen(ushort half_bits)
{
    uint sign = (uint)half_bits >> 15, bits = (uint)half_bits << 17 >> 4;

    if (bits >= 0x0f800000) /* infinity, NaN */
        return as_float(sign << 31 | 0x7f800000 | bits);
    return as_float(sign << 31 | as_uint(as_float(bits) * 0x1p112f));
}

half_number facet_libcall___truncsfhf2(float x)
{
    return __builtin_astype(narrow(x), half_number);
}

half_number facet_libcall___truncdfhf2(double x)
{
    float near = (float)x;
    double back = near;

    /* Rounded to odd: the last bit is set if bits were lost. */
    if ((back < x || back > x) && (as_uint(near) & 1) == 0)
        near = as_float(as_uint(near) + ((back < x) == (x > 0) ? 1 : -1));
    return __builtin_astype(narrow(near), half_number);
}

float facet_libcall___extendhfsf2(half_number x)
{
    return widen(__builtin_astype(x, ushort));
}

/* --- integers of 128 bits ----------------------------------------------------------------------------------------- */

typedef __int128 whole;

/* Bit by bit, since dividing `wide` is a call of a function defined here. */
static wide divide(wide a, wide b, bool remainder)
{
    wide quotient = 0, rest = 0;

    if (b == 0)
        return 0;
    if ((ulong)(a >> 64) == 0 && (ulong)(b >> 64) == 0)
        return remainder ? (ulong)a % (ulong)b : (ulong)a / (ulong)b;
    for (int bit = 127; bit >= 0; bit--) {
        bool beyond = (ulong)(rest >> 127) != 0;

        rest = rest << 1 | (a >> bit & 1);
        if (beyond || rest >= b) {
            rest -= b;
            quotient |= (wide)1 << bit;
        }
    }
    return remainder ? rest : quotient;
}

static wide size_of_whole(whole x)
{
    return x < 0 ? -(wide)x : (wide)x;
}

wide facet_libcall___udivti3(wide a, wide b)
{
    return divide(a, b, false);
}

wide facet_libcall___umodti3(wide a, wide b)
{
    return divide(a, b, true);
}

whole facet_libcall___divti3(whole a, whole b)
{
    wide quotient = divide(size_of_whole(a), size_of_whole(b), false);

    return (whole)((a < 0) != (b < 0) ? -quotient : quotient);
}

whole facet_libcall___modti3(whole a, whole b)
{
    wide rest = divide(size_of_whole(a), size_of_whole(b), true);

    return (whole)(a < 0 ? -rest : rest);
}
