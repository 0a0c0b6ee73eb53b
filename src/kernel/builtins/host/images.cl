/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images (OpenCL C 1.2, 6.12.14) on struct facet_host_image_object (facet/host_kernel.h).
 *
 * Owns: addressing, filtering, pixel formats. Formats: orders of one, two and four channels; UNORM, SNORM, integers of
 *       8, 16 and (integers) 32 bits, HALF, FLOAT. Packed formats read as zeros and are not written.
 * Never: leaves the image: coordinates that the standard leaves undefined are clamped (reads) or ignored (writes).
 */

struct image {
    ulong pixels;
    uint width, height, depth, array_size;
    uint row_bytes, slice_bytes;
    uint order, type;
};
#define IMAGE  const global struct image *
#define PUBLIC __attribute__((overloadable))

/* Conversions without code, in handles.ll: types that clang distinguishes are the same pointer on the host. */
#define HANDLES(access)                                                                                                \
    IMAGE __facet_image1d_##access(access image1d_t image);                                                            \
    IMAGE __facet_image1d_buffer_##access(access image1d_buffer_t image);                                              \
    IMAGE __facet_image1d_array_##access(access image1d_array_t image);                                                \
    IMAGE __facet_image2d_##access(access image2d_t image);                                                            \
    IMAGE __facet_image2d_array_##access(access image2d_array_t image);                                                \
    IMAGE __facet_image3d_##access(access image3d_t image);
HANDLES(read_only)
HANDLES(write_only)
uint __facet_sampler(sampler_t sampler);

/* --- pixels ----------------------------------------------------------------------------------------------------- */

static uint channels_of(IMAGE image)
{
    switch (image->order) {
    case CLK_R:
    case CLK_A:
    case CLK_Rx:
    case CLK_INTENSITY:
    case CLK_LUMINANCE:
        return 1;
    case CLK_RG:
    case CLK_RA:
    case CLK_RGx:
        return 2;
    case CLK_RGBA:
    case CLK_BGRA:
    case CLK_ARGB:
        return 4;
    default:
        return 0;
    }
}

static uint channel_bytes(IMAGE image)
{
    switch (image->type) {
    case CLK_UNORM_INT8:
    case CLK_SNORM_INT8:
    case CLK_SIGNED_INT8:
    case CLK_UNSIGNED_INT8:
        return 1;
    case CLK_UNORM_INT16:
    case CLK_SNORM_INT16:
    case CLK_SIGNED_INT16:
    case CLK_UNSIGNED_INT16:
    case CLK_HALF_FLOAT:
        return 2;
    case CLK_SIGNED_INT32:
    case CLK_UNSIGNED_INT32:
    case CLK_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static bool is_inside(IMAGE image, int4 at)
{
    return as_uint(at.x) < image->width && as_uint(at.y) < max(image->height, 1u) &&
           as_uint(at.z) < max(max(image->depth, image->array_size), 1u);
}

static ulong address_of(IMAGE image, int4 at)
{
    uint pixel = channels_of(image) * channel_bytes(image);

    return image->pixels + (ulong)at.z * image->slice_bytes + (ulong)at.y * image->row_bytes + (ulong)at.x * pixel;
}

static float channel_f(ulong address, uint type, uint i)
{
    switch (type) {
    case CLK_UNORM_INT8:
        return ((const global uchar *)address)[i] * (1.0f / 255.0f);
    case CLK_UNORM_INT16:
        return ((const global ushort *)address)[i] * (1.0f / 65535.0f);
    case CLK_SNORM_INT8:
        return max(((const global char *)address)[i] * (1.0f / 127.0f), -1.0f);
    case CLK_SNORM_INT16:
        return max(((const global short *)address)[i] * (1.0f / 32767.0f), -1.0f);
    case CLK_HALF_FLOAT:
        return vload_half(i, (const global half *)address);
    case CLK_FLOAT:
        return ((const global float *)address)[i];
    default:
        return 0.0f;
    }
}

static int channel_i(ulong address, uint type, uint i)
{
    switch (type) {
    case CLK_SIGNED_INT8:
        return ((const global char *)address)[i];
    case CLK_SIGNED_INT16:
        return ((const global short *)address)[i];
    case CLK_UNSIGNED_INT8:
        return ((const global uchar *)address)[i];
    case CLK_UNSIGNED_INT16:
        return ((const global ushort *)address)[i];
    case CLK_SIGNED_INT32:
    case CLK_UNSIGNED_INT32:
        return ((const global int *)address)[i];
    default:
        return 0;
    }
}

/* Arranges channels from their order in memory as red, green, blue, alpha. */
#define ARRANGE(suffix, scalar, vector)                                                                                \
    static vector arrange_##suffix(uint order, vector raw)                                                             \
    {                                                                                                                  \
        switch (order) {                                                                                               \
        case CLK_R:                                                                                                    \
        case CLK_Rx:                                                                                                   \
            return (vector)(raw.x, 0, 0, 1);                                                                           \
        case CLK_A:                                                                                                    \
            return (vector)(0, 0, 0, raw.x);                                                                           \
        case CLK_INTENSITY:                                                                                            \
            return raw.xxxx;                                                                                           \
        case CLK_LUMINANCE:                                                                                            \
            return (vector)(raw.xxx, 1);                                                                               \
        case CLK_RG:                                                                                                   \
        case CLK_RGx:                                                                                                  \
            return (vector)(raw.xy, 0, 1);                                                                             \
        case CLK_RA:                                                                                                   \
            return (vector)(raw.x, 0, 0, raw.y);                                                                       \
        case CLK_BGRA:                                                                                                 \
            return raw.zyxw;                                                                                           \
        case CLK_ARGB:                                                                                                 \
            return raw.yzwx;                                                                                           \
        default:                                                                                                       \
            return raw;                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static vector fetch_##suffix(IMAGE image, int4 at)                                                                 \
    {                                                                                                                  \
        uint channels = channels_of(image);                                                                            \
        vector raw = 0;                                                                                                \
        if (!is_inside(image, at)) {                                                                                   \
            bool opaque = image->order == CLK_R || image->order == CLK_RG || image->order == CLK_LUMINANCE;            \
            return (vector)(0, 0, 0, opaque ? 1 : 0);                                                                  \
        }                                                                                                              \
        ulong address = address_of(image, at);                                                                         \
        if (channels >= 1)                                                                                             \
            raw.x = channel_##suffix(address, image->type, 0);                                                         \
        if (channels >= 2)                                                                                             \
            raw.y = channel_##suffix(address, image->type, 1);                                                         \
        if (channels == 4) {                                                                                           \
            raw.z = channel_##suffix(address, image->type, 2);                                                         \
            raw.w = channel_##suffix(address, image->type, 3);                                                         \
        }                                                                                                              \
        return arrange_##suffix(image->order, raw);                                                                    \
    }
ARRANGE(f, float, float4)
ARRANGE(i, int, int4)

/* --- coordinates ------------------------------------------------------------------------------------------------ */

/* The bits of a sampler (FACET_SAMPLER_*): MODE is the mask of the addressing mode, EDGE to MIRRORED are its values. */
enum { NORMALIZED = 1, MODE = 14, EDGE = 2, BORDER = 4, REPEAT = 6, MIRRORED = 8, LINEAR = 0x20 };

/* Clamps a coordinate, also NaN, so that it fits an int: -2 and size + 1 are outside of the image like any number
 * beyond them. */
static float near(float at, uint size)
{
    return fmin(fmax(at, -2.0f), (float)size + 1.0f);
}

/* One coordinate in pixels, before it is rounded. */
static float place(uint sampler, float at, uint size)
{
    switch (sampler & MODE) {
    case REPEAT:
        return (at - floor(at)) * size;
    case MIRRORED:
        return fabs(at - 2.0f * rint(0.5f * at)) * size;
    default:
        return sampler & NORMALIZED ? at * size : at;
    }
}

/* Moves one rounded coordinate into the image, or with BORDER at most one pixel outside. */
static int wrap(uint sampler, int at, uint size)
{
    int last = (int)size - 1;

    switch (sampler & MODE) {
    case BORDER:
        return clamp(at, -1, (int)size);
    case REPEAT:
        at = at < 0 ? at + (int)size : at;
        return clamp(at > last ? at - (int)size : at, 0, last);
    default:
        return clamp(at, 0, last);
    }
}

static int nearest(uint sampler, float at, uint size)
{
    return wrap(sampler, (int)floor(near(place(sampler, at, size), size)), size);
}

struct pair {
    int low, high;
    float weight; /* of high */
};

static struct pair neighbours(uint sampler, float at, uint size)
{
    float shifted = near(place(sampler, at, size) - 0.5f, size), low = floor(shifted);

    return (struct pair){wrap(sampler, (int)low, size), wrap(sampler, (int)low + 1, size), shifted - low};
}

static int layer_of(IMAGE image, float layer)
{
    return (int)rint(fmin(fmax(layer, 0.0f), (float)max(image->array_size, 1u) - 1.0f));
}

/* --- sampling in `dimensions` dimensions; the coordinate behind them is the layer of an array, already rounded ---- */

static int4 nearest_all(IMAGE image, uint sampler, float4 at, uint dimensions, int4 found)
{
    found.x = nearest(sampler, at.x, image->width);
    if (dimensions > 1)
        found.y = nearest(sampler, at.y, image->height);
    if (dimensions > 2)
        found.z = nearest(sampler, at.z, image->depth);
    return found;
}

static float4 row_f(IMAGE image, struct pair x, int y, int z)
{
    return mix(fetch_f(image, (int4)(x.low, y, z, 0)), fetch_f(image, (int4)(x.high, y, z, 0)), x.weight);
}

static float4 plane_f(IMAGE image, struct pair x, struct pair y, int z)
{
    return mix(row_f(image, x, y.low, z), row_f(image, x, y.high, z), y.weight);
}

static float4 linear_f(IMAGE image, uint sampler, float4 at, uint dimensions, int4 layer)
{
    struct pair x = neighbours(sampler, at.x, image->width), y, z;

    if (dimensions == 1)
        return row_f(image, x, layer.y, layer.z);
    y = neighbours(sampler, at.y, image->height);
    if (dimensions == 2)
        return plane_f(image, x, y, layer.z);
    z = neighbours(sampler, at.z, image->depth);
    return mix(plane_f(image, x, y, z.low), plane_f(image, x, y, z.high), z.weight);
}

static float4 sample_f(IMAGE image, uint sampler, float4 at, uint dimensions, int4 layer)
{
    if (sampler & LINEAR)
        return linear_f(image, sampler, at, dimensions, layer);
    return fetch_f(image, nearest_all(image, sampler, at, dimensions, layer));
}

static int4 sample_i(IMAGE image, uint sampler, float4 at, uint dimensions, int4 layer)
{
    return fetch_i(image, nearest_all(image, sampler, at, dimensions, layer));
}

/* Integer coordinates are never normalized nor filtered. */
static int4 wrap_all(IMAGE image, uint sampler, int4 at)
{
    return (int4)(wrap(sampler, at.x, image->width), wrap(sampler, at.y, max(image->height, 1u)),
                  wrap(sampler, at.z, max(max(image->depth, image->array_size), 1u)), 0);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Stores red, green, blue, alpha in the order of the channels in memory. */
#define SCATTER(suffix, vector)                                                                                        \
    static vector scatter_##suffix(uint order, vector color)                                                           \
    {                                                                                                                  \
        switch (order) {                                                                                               \
        case CLK_A:                                                                                                    \
            return color.wwww;                                                                                         \
        case CLK_RA:                                                                                                   \
            return color.xwww;                                                                                         \
        case CLK_BGRA:                                                                                                 \
            return color.zyxw;                                                                                         \
        case CLK_ARGB:                                                                                                 \
            return color.wxyz;                                                                                         \
        default:                                                                                                       \
            return color;                                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void write_##suffix(IMAGE image, int4 at, vector color)                                                     \
    {                                                                                                                  \
        uint channels = channels_of(image);                                                                            \
        if (!is_inside(image, at))                                                                                     \
            return;                                                                                                    \
        ulong address = address_of(image, at);                                                                         \
        color = scatter_##suffix(image->order, color);                                                                 \
        if (channels >= 1)                                                                                             \
            store_##suffix(address, image->type, 0, color.x);                                                          \
        if (channels >= 2)                                                                                             \
            store_##suffix(address, image->type, 1, color.y);                                                          \
        if (channels == 4) {                                                                                           \
            store_##suffix(address, image->type, 2, color.z);                                                          \
            store_##suffix(address, image->type, 3, color.w);                                                          \
        }                                                                                                              \
    }

/* NaN becomes 0, as OpenCL requires; fmin() and fmax() would return a bound for it. */
static int scaled(float value, float least, float most)
{
    return value == value ? (int)rint(fmin(fmax(value * most, least), most)) : 0;
}

static void store_f(ulong address, uint type, uint i, float value)
{
    switch (type) {
    case CLK_UNORM_INT8:
        ((global uchar *)address)[i] = (uchar)scaled(value, 0.0f, 255.0f);
        return;
    case CLK_UNORM_INT16:
        ((global ushort *)address)[i] = (ushort)scaled(value, 0.0f, 65535.0f);
        return;
    case CLK_SNORM_INT8:
        ((global char *)address)[i] = (char)scaled(value, -128.0f, 127.0f);
        return;
    case CLK_SNORM_INT16:
        ((global short *)address)[i] = (short)scaled(value, -32768.0f, 32767.0f);
        return;
    case CLK_HALF_FLOAT:
        vstore_half(value, i, (global half *)address);
        return;
    case CLK_FLOAT:
        ((global float *)address)[i] = value;
        return;
    default:
        return;
    }
}

/* Whether the number has a sign is known from the format, not from the function that was called: integers in SPIR-V
 * have no sign, so a write_imageui() in SPIR-V arrives as write_imagei(). */
static void store_i(ulong address, uint type, uint i, int value)
{
    switch (type) {
    case CLK_SIGNED_INT8:
        ((global char *)address)[i] = (char)clamp(value, -128, 127);
        return;
    case CLK_UNSIGNED_INT8:
        ((global uchar *)address)[i] = (uchar)min(as_uint(value), 255u);
        return;
    case CLK_SIGNED_INT16:
        ((global short *)address)[i] = (short)clamp(value, -32768, 32767);
        return;
    case CLK_UNSIGNED_INT16:
        ((global ushort *)address)[i] = (ushort)min(as_uint(value), 65535u);
        return;
    case CLK_SIGNED_INT32:
    case CLK_UNSIGNED_INT32:
        ((global int *)address)[i] = value;
        return;
    default:
        return;
    }
}
SCATTER(f, float4)
SCATTER(i, int4)

/* --- functions for kernels. `F`, `I`: the coordinates' type; `full`: the coordinates as four numbers ------------- */

#define READ(kind, I, pixel)                                                                                           \
    PUBLIC float4 read_imagef(read_only kind##_t image, I c)                                                           \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return fetch_f(object, wrap_all(object, 0, pixel));                                                            \
    }                                                                                                                  \
    PUBLIC int4 read_imagei(read_only kind##_t image, I c)                                                             \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return fetch_i(object, wrap_all(object, 0, pixel));                                                            \
    }                                                                                                                  \
    PUBLIC uint4 read_imageui(read_only kind##_t image, I c)                                                           \
    {                                                                                                                  \
        return as_uint4(read_imagei(image, c));                                                                        \
    }
READ(image1d, int, ((int4)(c, 0, 0, 0)))
READ(image1d_buffer, int, ((int4)(c, 0, 0, 0)))
READ(image1d_array, int2, ((int4)(c.x, 0, c.y, 0)))
READ(image2d, int2, ((int4)(c, 0, 0)))
READ(image2d_array, int4, c)
READ(image3d, int4, c)

#define SAMPLE(kind, I, pixel)                                                                                         \
    PUBLIC float4 read_imagef(read_only kind##_t image, sampler_t sampler, I c)                                        \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return fetch_f(object, wrap_all(object, __facet_sampler(sampler), pixel));                                     \
    }                                                                                                                  \
    PUBLIC int4 read_imagei(read_only kind##_t image, sampler_t sampler, I c)                                          \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return fetch_i(object, wrap_all(object, __facet_sampler(sampler), pixel));                                     \
    }                                                                                                                  \
    PUBLIC uint4 read_imageui(read_only kind##_t image, sampler_t sampler, I c)                                        \
    {                                                                                                                  \
        return as_uint4(read_imagei(image, sampler, c));                                                               \
    }
SAMPLE(image1d, int, ((int4)(c, 0, 0, 0)))
SAMPLE(image1d_array, int2, ((int4)(c.x, 0, layer_of(object, c.y), 0)))
SAMPLE(image2d, int2, ((int4)(c, 0, 0)))
SAMPLE(image2d_array, int4, ((int4)(c.xy, layer_of(object, c.z), 0)))
SAMPLE(image3d, int4, c)

#define FILTER(kind, F, dimensions, full, layer)                                                                       \
    PUBLIC float4 read_imagef(read_only kind##_t image, sampler_t sampler, F c)                                        \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return sample_f(object, __facet_sampler(sampler), full, dimensions, layer);                                    \
    }                                                                                                                  \
    PUBLIC int4 read_imagei(read_only kind##_t image, sampler_t sampler, F c)                                          \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_read_only(image);                                                              \
        return sample_i(object, __facet_sampler(sampler), full, dimensions, layer);                                    \
    }                                                                                                                  \
    PUBLIC uint4 read_imageui(read_only kind##_t image, sampler_t sampler, F c)                                        \
    {                                                                                                                  \
        return as_uint4(read_imagei(image, sampler, c));                                                               \
    }
FILTER(image1d, float, 1, ((float4)(c, 0, 0, 0)), ((int4)(0)))
FILTER(image1d_array, float2, 1, ((float4)(c, 0, 0)), ((int4)(0, 0, layer_of(object, c.y), 0)))
FILTER(image2d, float2, 2, ((float4)(c, 0, 0)), ((int4)(0)))
FILTER(image2d_array, float4, 2, c, ((int4)(0, 0, layer_of(object, c.z), 0)))
FILTER(image3d, float4, 3, c, ((int4)(0)))

#define WRITE(kind, I, pixel)                                                                                          \
    PUBLIC void write_imagef(write_only kind##_t image, I c, float4 color)                                             \
    {                                                                                                                  \
        write_f(__facet_##kind##_write_only(image), pixel, color);                                                     \
    }                                                                                                                  \
    PUBLIC void write_imagei(write_only kind##_t image, I c, int4 color)                                               \
    {                                                                                                                  \
        write_i(__facet_##kind##_write_only(image), pixel, color);                                                     \
    }                                                                                                                  \
    PUBLIC void write_imageui(write_only kind##_t image, I c, uint4 color)                                             \
    {                                                                                                                  \
        write_i(__facet_##kind##_write_only(image), pixel, as_int4(color));                                            \
    }
WRITE(image1d, int, ((int4)(c, 0, 0, 0)))
WRITE(image1d_buffer, int, ((int4)(c, 0, 0, 0)))
WRITE(image1d_array, int2, ((int4)(c.x, 0, c.y, 0)))
WRITE(image2d, int2, ((int4)(c, 0, 0)))
WRITE(image2d_array, int4, c)
WRITE(image3d, int4, c)

#define ASK(access, kind, result, name, value)                                                                         \
    PUBLIC result name(access kind##_t image)                                                                          \
    {                                                                                                                  \
        IMAGE object = __facet_##kind##_##access(image);                                                               \
        return value;                                                                                                  \
    }
#define ASK_ALL(access, kind)                                                                                          \
    ASK(access, kind, int, get_image_width, (int)object->width)                                                        \
    ASK(access, kind, int, get_image_channel_data_type, (int)object->type)                                             \
    ASK(access, kind, int, get_image_channel_order, (int)object->order)
#define ASK_EACH(access)                                                                                               \
    ASK_ALL(access, image1d)                                                                                           \
    ASK_ALL(access, image1d_buffer)                                                                                    \
    ASK_ALL(access, image1d_array)                                                                                     \
    ASK_ALL(access, image2d)                                                                                           \
    ASK_ALL(access, image2d_array)                                                                                     \
    ASK_ALL(access, image3d)                                                                                           \
    ASK(access, image2d, int, get_image_height, (int)object->height)                                                   \
    ASK(access, image2d_array, int, get_image_height, (int)object->height)                                             \
    ASK(access, image3d, int, get_image_height, (int)object->height)                                                   \
    ASK(access, image3d, int, get_image_depth, (int)object->depth)                                                     \
    ASK(access, image2d, int2, get_image_dim, ((int2)((int)object->width, (int)object->height)))                       \
    ASK(access, image2d_array, int2, get_image_dim, ((int2)((int)object->width, (int)object->height)))                 \
    ASK(access, image3d, int4, get_image_dim,                                                                          \
        ((int4)((int)object->width, (int)object->height, (int)object->depth, 0)))                                      \
    ASK(access, image1d_array, size_t, get_image_array_size, object->array_size)                                       \
    ASK(access, image2d_array, size_t, get_image_array_size, object->array_size)
ASK_EACH(read_only)
ASK_EACH(write_only)
