/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the right results of each kernel of the set, computed one element after the other.
 * Never: is optimized. Sums are in double; results that must be exact use the kernel's own order and type.
 */
#include <math.h>

#include "set.h"

static int clamped(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

void reference_saxpy(void *const *memory)
{
    const float *x = memory[1], *y = memory[2];
    float *z = memory[3];

    for (int i = 0; i < SAXPY_COUNT; i++)
        z[i] = 1.5f * x[i] + y[i];
}

void reference_vector_add(void *const *memory)
{
    const float *x = memory[0], *y = memory[1];
    float *z = memory[2];

    for (int i = 0; i < SAXPY_COUNT; i++)
        z[i] = x[i] + y[i];
}

static double nine_points(const float *in, int at, int width)
{
    const float *above = in + at - width, *below = in + at + width;
    double near = (double)in[at - 1] + (double)in[at + 1] + (double)above[0] + (double)below[0];
    double corners = (double)above[-1] + (double)above[1] + (double)below[-1] + (double)below[1];

    return 0.5 * (double)in[at] + 0.1 * near + 0.025 * corners;
}

static void stencil2d(void *const *memory, int side)
{
    const float *in = memory[0];
    float *out = memory[1];

    for (int at = 0; at < side * side; at++) {
        int x = at % side, y = at / side;
        int inside = x > 0 && y > 0 && x < side - 1 && y < side - 1;

        out[at] = inside ? (float)nine_points(in, at, side) : in[at];
    }
}

void reference_stencil2d(void *const *memory)
{
    stencil2d(memory, PLANE);
}

void reference_stencil2d_cached(void *const *memory)
{
    stencil2d(memory, CACHED_PLANE);
}

static int inside_volume(int at, const int *size)
{
    int x = at % size[0], y = at / size[0] % size[1], z = at / size[0] / size[1];

    return x > 0 && y > 0 && z > 0 && x < size[0] - 1 && y < size[1] - 1 && z < size[2] - 1;
}

static void stencil3d(void *const *memory, const int *size)
{
    const int steps[] = {1, size[0], size[0] * size[1]};
    const float *in = memory[0];
    float *out = memory[1];

    for (int at = 0; at < size[0] * size[1] * size[2]; at++) {
        int inside = inside_volume(at, size);
        double sum = 0;

        for (int i = 0; i < 3 && inside; i++)
            sum += 0.1 * ((double)in[at - steps[i]] + (double)in[at + steps[i]]);
        out[at] = inside ? (float)(sum + 0.4 * (double)in[at]) : 0.0f;
    }
}

void reference_stencil3d(void *const *memory)
{
    stencil3d(memory, (const int[]){VOLUME, VOLUME, VOLUME});
}

void reference_stencil3d_cached(void *const *memory)
{
    stencil3d(memory, (const int[]){CACHED_SIDE, CACHED_LAYERS, CACHED_LAYERS});
}

void reference_reduce(void *const *memory)
{
    const float *in = memory[0];
    float *sums = memory[1];

    for (int group = 0; group < REDUCE_COUNT / GROUP; group++) {
        double sum = 0;

        for (int i = 0; i < GROUP; i++)
            sum += (double)in[group * GROUP + i];
        sums[group] = (float)sum;
    }
}

void reference_scan(void *const *memory)
{
    const uint32_t *in = memory[0];
    uint32_t *out = memory[1];

    for (int i = 0; i < REDUCE_COUNT; i++)
        out[i] = in[i] + (i % GROUP ? out[i - 1] : 0);
}

void reference_matmul(void *const *memory)
{
    const float *a = memory[0], *b = memory[1];
    float *c = memory[2];

    for (int at = 0; at < MATRIX * MATRIX; at++) {
        double sum = 0;

        for (int i = 0; i < MATRIX; i++)
            sum += (double)a[at / MATRIX * MATRIX + i] * (double)b[i * MATRIX + at % MATRIX];
        c[at] = (float)sum;
    }
}

void reference_nbody(void *const *memory)
{
    const float *bodies = memory[0];
    float *pulls = memory[1];

    for (int i = 0; i < BODIES; i++) {
        double pull[3] = {0};

        for (int j = 0; j < BODIES; j++) {
            double way[3], square = (double)0.01f;

            for (int k = 0; k < 3; k++) {
                way[k] = (double)bodies[j * 4 + k] - (double)bodies[i * 4 + k];
                square += way[k] * way[k];
            }
            for (int k = 0; k < 3; k++)
                pull[k] += way[k] * (double)bodies[j * 4 + 3] / (square * sqrt(square));
        }
        for (int k = 0; k < 3; k++)
            pulls[i * 4 + k] = (float)pull[k];
        pulls[i * 4 + 3] = 0.0f;
    }
}

/* The kernel's polynomial instead of the exact distribution, from which it differs by up to 1e-7. */
static double normal_below(double x)
{
    double k = 1 / (1 + 0.2316419 * fabs(x));
    double tail = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    double rest = 0.39894228 * exp(-0.5 * x * x) * tail;

    return x > 0 ? 1 - rest : rest;
}

void reference_black_scholes(void *const *memory)
{
    const float *price = memory[0], *strike = memory[1], *years = memory[2];
    const double rate = (double)0.02f, volatility = (double)0.3f;
    float *call = memory[3], *put = memory[4];

    for (int i = 0; i < OPTIONS; i++) {
        double p = (double)price[i], s = (double)strike[i], t = (double)years[i];
        double root = volatility * sqrt(t), d1 = (log(p / s) + (rate + 0.5 * volatility * volatility) * t) / root;
        double discounted = s * exp(-rate * t), value = p * normal_below(d1) - discounted * normal_below(d1 - root);

        call[i] = (float)value;
        put[i] = (float)(value - p + discounted);
    }
}

/* FIPS 180-4 defines the constants as fractional parts of the cube roots of the first 64 primes. */
static void sha256_constants(uint32_t *ret_k)
{
    int count = 0;

    for (int candidate = 2; count < 64; candidate++) {
        int prime = 1;

        for (int divisor = 2; divisor * divisor <= candidate; divisor++)
            prime = prime && candidate % divisor != 0;
        if (prime) {
            long double root = cbrtl((long double)candidate);

            ret_k[count++] = (uint32_t)((root - floorl(root)) * 0x1p32L);
        }
    }
}

static uint32_t rotate_right(uint32_t value, int bits)
{
    return value >> bits | value << (32 - bits);
}

static void sha256_block(const uint32_t *block, const uint32_t *k, uint32_t *state)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 64; i++) {
        if (i < 16) {
            w[i] = block[i];
            continue;
        }
        w[i] = w[i - 16] + (rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10);
    }
    for (int i = 0; i < 8; i++)
        s[i] = state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t t1 = s[7] + (rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t t2 = (rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

        for (int j = 7; j > 0; j--)
            s[j] = s[j - 1];
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void reference_sha256(void *const *memory)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint32_t *messages = memory[0];
    uint32_t *digests = memory[1], k[64];

    sha256_constants(k);
    for (int item = 0; item < MESSAGES; item++) {
        uint32_t block[16] = {[8] = UINT32_C(0x80000000), [15] = 256};

        for (int i = 0; i < 8; i++) {
            block[i] = messages[item * 8 + i];
            digests[item * 8 + i] = first[i];
        }
        sha256_block(block, k, digests + (size_t)item * 8);
    }
}

void reference_conv2d(void *const *memory)
{
    const float *in = memory[0], *filter = memory[2];
    float *out = memory[1];

    for (int at = 0; at < PLANE * PLANE; at++) {
        double sum = 0;

        for (int i = 0; i < 25; i++) {
            int y = clamped(at / PLANE + i / 5 - 2, PLANE - 1), x = clamped(at % PLANE + i % 5 - 2, PLANE - 1);

            sum += (double)filter[i] * (double)in[y * PLANE + x];
        }
        out[at] = (float)sum;
    }
}

void reference_histogram(void *const *memory)
{
    const uint8_t *in = memory[0];
    uint32_t *counts = memory[1];

    for (int i = 0; i < HISTOGRAM_GROUPS * 256; i++)
        counts[i] = 0;
    for (int i = 0; i < HISTOGRAM_GROUPS * GROUP * EACH; i++)
        counts[i / (GROUP * EACH) * 256 + in[i]]++;
}

void reference_transpose(void *const *memory)
{
    const float *in = memory[0];
    float *out = memory[1];

    for (int at = 0; at < PLANE * PLANE; at++)
        out[at % PLANE * PLANE + at / PLANE] = in[at];
}

void reference_softmax(void *const *memory)
{
    const float *in = memory[0];
    float *out = memory[1];

    for (int row = 0; row < ROWS; row++, in += COLUMNS, out += COLUMNS) {
        double sum = 0;

        for (int i = 0; i < COLUMNS; i++)
            sum += exp((double)in[i]);
        for (int i = 0; i < COLUMNS; i++)
            out[i] = (float)(exp((double)in[i]) / sum);
    }
}

void reference_layernorm(void *const *memory)
{
    const float *in = memory[0], *scale = memory[1], *shift = memory[2];
    float *out = memory[3];

    for (int row = 0; row < ROWS; row++, in += COLUMNS, out += COLUMNS) {
        double mean = 0, squares = 0;

        for (int i = 0; i < COLUMNS; i++)
            mean += (double)in[i] / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            squares += ((double)in[i] - mean) * ((double)in[i] - mean);
        for (int i = 0; i < COLUMNS; i++)
            out[i] =
                (float)(((double)in[i] - mean) / sqrt(squares / COLUMNS + 1e-5) * (double)scale[i] + (double)shift[i]);
    }
}

void reference_fft_step(void *const *memory)
{
    const float *in = memory[0];
    float *out = memory[1];

    for (int i = 0; i < FFT_HALF; i++) {
        const float *a = in + 2 * (size_t)i, *b = in + 2 * (size_t)(i + FFT_HALF);
        int k = i % FFT_DONE, to = 2 * (i - k) + k;
        double angle = -acos(-1) * k / FFT_DONE;
        double x = (double)b[0] * cos(angle) - (double)b[1] * sin(angle);
        double y = (double)b[0] * sin(angle) + (double)b[1] * cos(angle);

        out[2 * to] = (float)((double)a[0] + x);
        out[2 * to + 1] = (float)((double)a[1] + y);
        out[2 * (to + FFT_DONE)] = (float)((double)a[0] - x);
        out[2 * (to + FFT_DONE) + 1] = (float)((double)a[1] - y);
    }
}

void reference_bitonic_step(void *const *memory)
{
    const uint32_t *in = memory[0];
    uint32_t *out = memory[1];

    for (uint32_t i = 0; i < SORT_COUNT; i++) {
        uint32_t partner = i ^ SORT_DISTANCE;
        uint32_t smaller = in[i] < in[partner] ? in[i] : in[partner], larger = in[i] ^ in[partner] ^ smaller;

        out[i] = ((i & SORT_BLOCK) == 0) == (i < partner) ? smaller : larger;
    }
}

static float random_coordinate(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(*state >> 8) * 0x1p-24f;
}

void reference_monte_carlo(void *const *memory)
{
    const uint32_t *seeds = memory[0];
    uint32_t *hits = memory[1];

    for (int i = 0; i < CARLO_COUNT; i++) {
        uint32_t state = seeds[i] | 1u;

        hits[i] = 0;
        for (int thrown = 0; thrown < CARLO_DARTS; thrown++) {
            float x = random_coordinate(&state), y = random_coordinate(&state);

            hits[i] += x * x + y * y <= 1.0f;
        }
    }
}

void reference_random_walk(void *const *memory)
{
    const uint32_t *seeds = memory[0];
    uint32_t *steps = memory[1];

    for (int i = 0; i < WALKERS; i++) {
        uint32_t state = seeds[i];
        int place = 0;

        for (steps[i] = 0; steps[i] < WALK_MOST && place > -WALK_BAND && place < WALK_BAND; steps[i]++) {
            state = state * 1664525u + 1013904223u;
            place += state >> 31 ? 1 : -1;
        }
    }
}

void reference_mandelbrot(void *const *memory)
{
    uint32_t *out = memory[0];

    for (int at = 0; at < BROT * BROT; at++) {
        int column = at % BROT, row = at / BROT;
        float cx = (float)column * 3.0f / (float)BROT - 2.25f, cy = (float)row * 2.5f / (float)BROT - 1.25f;
        float x = 0.0f, y = 0.0f;
        uint32_t i = 0;

        for (; i < BROT_MOST && x * x + y * y <= 4.0f; i++) {
            float next = x * x - y * y + cx;

            y = 2.0f * x * y + cy;
            x = next;
        }
        out[at] = i;
    }
}

void reference_spmv(void *const *memory)
{
    const uint32_t *starts = memory[0], *columns = memory[1];
    const float *values = memory[2], *x = memory[3];
    float *y = memory[4];

    for (int row = 0; row < SPARSE_ROWS; row++) {
        double sum = 0;

        for (uint32_t i = starts[row]; i < starts[row + 1]; i++)
            sum += (double)values[i] * (double)x[columns[i]];
        y[row] = (float)sum;
    }
}

void reference_dot(void *const *memory)
{
    const float *x = memory[0], *y = memory[1];
    float *sums = memory[2];

    for (int group = 0; group < HISTOGRAM_GROUPS; group++) {
        double sum = 0;

        for (int i = group * GROUP * EACH; i < (group + 1) * GROUP * EACH; i++)
            sum += (double)x[i] * (double)y[i];
        sums[group] = (float)sum;
    }
}

static float interpolate(float a, float b, float how)
{
    return a + (b - a) * how;
}

static void resize(void *const *memory, int from, int to)
{
    const float *in = memory[0];
    float *out = memory[1];

    for (int at = 0; at < to * to; at++) {
        int column = at % to, row = at / to;
        float fx = (float)column * (float)(from - 1) / (float)to;
        float fy = (float)row * (float)(from - 1) / (float)to;
        int left = (int)fx, top = (int)fy;
        const float *corner = in + top * from + left, *under = corner + from;

        out[at] = interpolate(interpolate(corner[0], corner[1], fx - (float)left),
                              interpolate(under[0], under[1], fx - (float)left), fy - (float)top);
    }
}

void reference_resize(void *const *memory)
{
    resize(memory, RESIZE_FROM, PLANE);
}

void reference_resize_cached(void *const *memory)
{
    resize(memory, CACHED_RESIZE_FROM, CACHED_PLANE);
}

void reference_kmeans(void *const *memory)
{
    const float *points = memory[0], *centres = memory[1];
    uint32_t *nearest = memory[2];

    for (int i = 0; i < POINTS; i++) {
        float least = INFINITY;

        for (int centre = 0; centre < CENTRES; centre++) {
            float distance = 0.0f;

            for (int f = 0; f < FEATURES; f++) {
                float away = points[f * POINTS + i] - centres[centre * FEATURES + f];

                distance += away * away;
            }
            if (distance < least) {
                least = distance;
                nearest[i] = (uint32_t)centre;
            }
        }
    }
}

void reference_life(void *const *memory)
{
    const uint8_t *in = memory[0];
    uint8_t *out = memory[1];

    for (int at = 0; at < PLANE * PLANE; at++) {
        int neighbours = -in[at];

        for (int i = 0; i < 9; i++) {
            int x = (at % PLANE + i % 3 - 1 + PLANE) % PLANE, y = (at / PLANE + i / 3 - 1 + PLANE) % PLANE;

            neighbours += in[y * PLANE + x];
        }
        out[at] = neighbours == 3 || (neighbours == 2 && in[at]);
    }
}

void reference_gemv(void *const *memory)
{
    const float *matrix = memory[0], *x = memory[1];
    float *y = memory[2];

    for (int row = 0; row < GEMV_ROWS; row++) {
        double sum = 0;

        for (int column = 0; column < GEMV_COLUMNS; column++)
            sum += (double)matrix[column * GEMV_ROWS + row] * (double)x[column];
        y[row] = (float)sum;
    }
}

void reference_gray(void *const *memory)
{
    const uint8_t *in = memory[0];
    uint8_t *out = memory[1];

    for (int i = 0; i < PIXELS; i++)
        out[i] = (uint8_t)((in[i * 4] * 77 + in[i * 4 + 1] * 150 + in[i * 4 + 2] * 29 + 128) >> 8);
}

static void jacobi(void *const *memory, int columns, int rows)
{
    const float *old = memory[0], *right = memory[1];
    const uint32_t *fixed = memory[2];
    const int width = columns + 2;
    float *new = memory[3];

    for (int y = 1; y <= rows; y++)
        for (int x = 1; x <= columns; x++) {
            int at = y * width + x;
            double around = 0.25 * ((double)old[at - 1] + (double)old[at + 1] + (double)old[at - width] +
                                    (double)old[at + width] - (double)right[at]);

            new[at] = fixed[at] ? old[at] : (float)((double)old[at] + (double)0.8f * (around - (double)old[at]));
        }
}

void reference_jacobi(void *const *memory)
{
    jacobi(memory, PLANE, PLANE);
}

void reference_jacobi_cached(void *const *memory)
{
    jacobi(memory, CACHED_WIDTH, CACHED_HEIGHT);
}
