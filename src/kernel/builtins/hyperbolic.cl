/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: cosh() and sinh() of double, for the host and PTX. libclc's own read behind the end of their tables for large
 * arguments, even in lanes whose result is not used. Never: has tables. */
#include "vectors.h"

/* exp(a) / 2, also where exp(a) is infinite but its half is not. */
static double half_exp(double a)
{
    double root = exp(0.5 * a);

    return 0.5 * root * root;
}

/* From 22 on exp(-a) is below half an ulp of exp(a). */
PUBLIC double cosh(double x)
{
    double a = fabs(x), whole = exp(fmin(a, 22.0));

    return a < 22.0 ? 0.5 * whole + 0.5 / whole : half_exp(a);
}

/* By expm1(), so that no digits cancel near zero. */
PUBLIC double sinh(double x)
{
    double a = fabs(x), less = expm1(fmin(a, 22.0)), ratio = less / (less + 1.0);
    double small = a < 1.0 ? 0.5 * (2.0 * less - less * ratio) : 0.5 * (less + ratio);

    return copysign(a < 22.0 ? small : half_exp(a), x);
}

VECTORS1(cosh, double)
VECTORS1(sinh, double)
