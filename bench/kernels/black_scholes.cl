/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of options: log, exp, sqrt and one select per item. */
float below(float x)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabs(x));
    float tail = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    float rest = 0.39894228f * exp(-0.5f * x * x) * tail;

    return x > 0.0f ? 1.0f - rest : rest;
}

__kernel void black_scholes(__global const float *price, __global const float *strike, __global const float *years,
                            __global float *call, __global float *put, float rate, float volatility)
{
    int i = get_global_id(0);
    float root = volatility * sqrt(years[i]);
    float d1 = (log(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / root;
    float d2 = d1 - root;
    float discounted = strike[i] * exp(-rate * years[i]);
    float value = price[i] * below(d1) - discounted * below(d2);

    call[i] = value;
    put[i] = value - price[i] + discounted;
}
