/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the matrix of a convolution's windows. Never: reads outside of the image, where all numbers are zero. */
#include <string.h>

#include "math/product.h"

/* The place in the input at which filling a row of the matrix begins, for one element of the filter. */
struct place {
    const char *plane; /* of its channel */
    int64_t y, x;      /* of the input, for the first column of the row */
};

/* Fills `count` positions of one output row, from column `first`. */
static void fill_row(const struct facet_convolution *convolution, const struct place *place, uint64_t first,
                     uint64_t count, uint64_t bytes, char *to)
{
    int64_t stride = (int64_t)convolution->stride[1], x = place->x + (int64_t)first * stride,
            width = (int64_t)convolution->width;

    if (place->y < 0 || place->y >= (int64_t)convolution->height) {
        memset(to, 0, count * bytes);
        return;
    }
    const char *row = place->plane + (uint64_t)place->y * convolution->width * bytes;
    for (; count > 0 && x < 0; count--, x += stride, to += bytes)
        memset(to, 0, bytes);
    uint64_t inside =
        x < width ? cpu_math_min(count, ((uint64_t)(width - x) + convolution->stride[1] - 1) / convolution->stride[1])
                  : 0;
    if (stride == 1)
        memcpy(to, row + x * (int64_t)bytes, inside * bytes);
    else if (bytes == 4)
        for (uint64_t i = 0; i < inside; i++)
            memcpy(to + i * 4, row + (x + (int64_t)i * stride) * 4, 4);
    else
        for (uint64_t i = 0; i < inside; i++)
            memcpy(to + i * bytes, row + (x + (int64_t)i * stride) * (int64_t)bytes, bytes);
    memset(to + inside * bytes, 0, (count - inside) * bytes);
}

/* Fills columns of one row of the matrix: one element of the filter, at many positions. */
static void fill_positions(const struct facet_convolution *convolution, const char *plane, uint64_t ky, uint64_t kx,
                           uint64_t n0, uint64_t columns, uint64_t width, uint64_t bytes, char *to)
{
    for (uint64_t n = n0, end = n0 + columns, count; n < end; n += count, to += count * bytes) {
        uint64_t y = n / width, x = n % width;
        const struct place place = {plane,
                                    (int64_t)(y * convolution->stride[0] + ky * convolution->dilation[0]) -
                                        (int64_t)convolution->padding[0],
                                    (int64_t)(kx * convolution->dilation[1]) - (int64_t)convolution->padding[1]};

        count = cpu_math_min(width - x, end - n);
        fill_row(convolution, &place, x, count, bytes, to);
    }
}

void cpu_math_windows(const struct facet_convolution *convolution, const void *input, uint64_t k0, uint64_t rows,
                      uint64_t n0, uint64_t columns, uint64_t bytes, void *to)
{
    uint64_t reach = convolution->dilation[1] * (convolution->kernel[1] - 1) + 1;
    uint64_t width = (convolution->width + 2 * convolution->padding[1] - reach) / convolution->stride[1] + 1;

    for (uint64_t k = k0; k < k0 + rows; k++) {
        uint64_t kx = k % convolution->kernel[1], ky = k / convolution->kernel[1] % convolution->kernel[0];
        uint64_t channel = k / convolution->kernel[1] / convolution->kernel[0];

        fill_positions(convolution, (const char *)input + channel * convolution->height * convolution->width * bytes,
                       ky, kx, n0, columns, width, bytes, (char *)to + (k - k0) * columns * bytes);
    }
}
