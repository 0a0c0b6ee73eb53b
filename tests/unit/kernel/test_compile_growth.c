/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the cost of compiling sources with much control flow or many calls stays near that of as much
 * straight-line code, or grows in proportion to the source. The compared costs are measured in one run, as processor
 * time, which other processes change little.
 * Never: asserts a time, only how many times as long one compile takes as another.
 */
#include "growing.h"

#include <sys/resource.h>

enum {
    LINES = 1200,     /* lines of control flow */
    TIMES_MOST = 12,  /* how many times as long as plain code they may take */
    LARGER = 4,       /* how many times as many lines the larger of two sources has */
    LARGER_MOST = 10, /* how many times as long as the smaller one it may take */
    ATTEMPTS = 3,     /* measurements before a test fails */
    SPARSE = 2000,    /* cases of a switch, in the smaller source */
    BARRIERS = 50,    /* in the smaller source */
    BRANCHES = 400    /* in the smaller source */
};

static double now_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_CHILDREN, &usage); /* compiles are children */
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double measure_source(const struct text *source, const char *target)
{
    double start = now_seconds();

    expect(source, target, FACET_OK, "");
    return now_seconds() - start;
}

/* Measures a kernel whose body is `before`, `count` times `line`, and `after`. In `line`, which is a format, %1$u is
 * the line's index; %2$u grows by about 3 from line to line; %3$u and %5$u are spread widely; %4$u is another line's
 * index. */
static double measure_compile(const char *before, const char *line, const char *after, unsigned count)
{
    struct text source = {0};
    char text[160];

    add(&source, "kernel void k(global const int *in, global int *out)\n", 1);
    add(&source, "{ int i = get_global_id(0), x = in[i], r = 0;\n", 1);
    add(&source, before, 1);
    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof text, line, i, i * 3 + i % 3, i * 7919 % 100003, i * 7 % count,
                 i * 7919 + i % 3); /* NOLINT */
        add(&source, text, 1);
    }
    add(&source, after, 1);
    add(&source, " out[i] = r; }\n", 1);
    double took = measure_source(&source, "host");
    free(source.bytes);
    return took;
}

/* The smaller of two measurements, since other processes only add to them. A `before` of 0 is no measurement. */
static double smaller_of(double before, double now)
{
    return before == 0 || now < before ? now : before;
}

/* Measures plain code. Later tests with as much of it use the smallest measurement so far, unless they try again. */
static double measure_plain(unsigned count, bool again)
{
    static struct {
        unsigned count;
        double took;
    } known[8];
    size_t i = 0;

    while (i < COUNT(known) && known[i].count && known[i].count != count)
        i++;
    assert_true(i < COUNT(known));
    known[i].count = count;
    if (known[i].took == 0 || again)
        known[i].took =
            smaller_of(known[i].took, measure_compile("", "r = (r ^ %1$u) * x + in[i + %3$u];\n", "", count));
    return known[i].took;
}

static void expect_as_fast(const char *what, const char *before, const char *line, const char *after, unsigned count)
{
    double plain = 0, took = 0;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        plain = measure_plain(count, attempt > 0);
        took = smaller_of(took, measure_compile(before, line, after, count));
        if (took <= plain * TIMES_MOST)
            return;
    }
    fail_msg("to compile, %u %s take %.3f s, as many plain statements %.3f s; expected at most %d times as long", count,
             what, took, plain, TIMES_MOST);
}

/* Compiles `count` lines, and LARGER times as many, which may take LARGER_MOST times as long. */
static void expect_in_proportion(const char *what, const char *before, const char *line, const char *after,
                                 unsigned count)
{
    double few = 0, many = 0;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        few = smaller_of(few, measure_compile(before, line, after, count));
        many = smaller_of(many, measure_compile(before, line, after, count * LARGER));
        if (many <= few * LARGER_MOST)
            return;
    }
    fail_msg("to compile, %u %s take %.3f s, %u take %.3f s; expected at most %d times as long", count, what, few,
             count * LARGER, many, LARGER_MOST);
}

static void growing_switches_compile_in_proportion(void **state)
{
    (void)state;
    expect_in_proportion("cases", "switch (x) {\n", "case %5$u: r = x * %3$u + %1$u; break;\n", "default: r = 1; }\n",
                         SPARSE);
    expect_in_proportion("constants", "switch (x) {\n", "case %5$u: r = %3$u; break;\n", "default: r = 1; }\n", SPARSE);
    expect_in_proportion("dense cases", "switch (x) {\n", "case %1$u: r = x * %3$u + %1$u; break;\n",
                         "default: r = 1; }\n", SPARSE);
}

static void growing_barriers_compile_in_proportion(void **state)
{
    static const char before[] = "local int l[256]; int t = get_local_id(0);\n";

    (void)state;
    expect_in_proportion("barriers", before,
                         "l[t] = r + %1$u; barrier(CLK_LOCAL_MEM_FENCE); r += l[(t + %2$u) & 255];\n", "", BARRIERS);
    expect_in_proportion("branches with barriers", before,
                         "if (in[%1$u] > 3) { l[t] = r + %1$u; barrier(CLK_LOCAL_MEM_FENCE); r += l[(t + %2$u) & 255]; "
                         "}\n",
                         "", BARRIERS);
}

static void growing_branches_compile_in_proportion(void **state)
{
    (void)state;
    expect_in_proportion("branches", "", "if (r > %3$u) r = r * %2$u + in[i + %1$u]; else r ^= in[i + %4$u];\n", "",
                         BRANCHES);
}

static void switches_compile_as_fast_as_plain_code(void **state)
{
    (void)state;
    expect_as_fast("cases", "switch (x) {\n", "case %2$u: r = x * %3$u + %1$u; break;\n", "default: r = 1; }\n", LINES);
    expect_as_fast("cases that write", "switch (x) {\n", "case %2$u: out[x + %1$u] = x ^ %3$u; break;\n", "}\n", LINES);
    expect_as_fast("cases that fall through", "switch (x) {\n", "case %2$u: r = r * %3$u + x;\n", "}\n", LINES);
}

static void comparisons_compile_as_fast_as_plain_code(void **state)
{
    (void)state;
    expect_as_fast("times else if", "if (x < 0) r = 3;\n", "else if (x == %2$u) r = x * %3$u + %1$u;\n", "", LINES);
    expect_as_fast("choices", "r = ", "x == %2$u ? %3$u :\n", "0;", LINES);
}

static void jumps_compile_as_fast_as_plain_code(void **state)
{
    enum { JUMPS = 150 };

    (void)state;
    expect_as_fast("jumps", "", "l%1$u: r = r * 3 + %2$u; if (in[r & 255] == %1$u) goto l%4$u;\n", "", JUMPS);
}

/* Each of these functions would be a hundred instructions or more if it were inlined. */
static void calls_compile_as_fast_as_plain_code(void **state)
{
    enum { CALLS = 200 };

    (void)state;
    expect_as_fast("calls of sin()", "float f = x;\n", "f += sin(f * %1$u.5f);\n", "r = as_int(f);", CALLS);
    expect_as_fast("calls of lgamma()", "float f = x;\n", "f += lgamma(f * %1$u.5f);\n", "r = as_int(f);", CALLS);
    expect_as_fast("calls of sin() of vectors", "float4 f = x;\n", "f += sin(f * %1$u.5f);\n", "r = as_int(f.y);",
                   CALLS / 4);
}

/* Each atomic is a loop over lanes. If LLVM unrolled it, its cost would grow with the number of all atomics. */
static void atomics_compile_as_fast_as_plain_code(void **state)
{
    enum { ATOMICS = 480 };

    (void)state;
    expect_as_fast("atomics", "", "r += atomic_add(&out[(r + %1$u) & 255], x);\n", "", ATOMICS);
}

static double measure_reads(unsigned count)
{
    struct text source = {0};

    add(&source, "kernel void k(read_only image2d_t image, sampler_t s, global float4 *out)\n", 1);
    add(&source, "{ float4 r = get_global_id(0);\n", 1);
    add(&source, "r += read_imagef(image, s, r.xy);\n", count);
    add(&source, "out[get_global_id(0)] = r; }\n", 1);
    double took = measure_source(&source, "host");
    free(source.bytes);
    return took;
}

static void reads_of_images_compile_in_proportion(void **state)
{
    enum { READS = 5, READS_MOST = 3 };

    (void)state;
    double one = 0, many = 0;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        one = smaller_of(one, measure_reads(1));
        many = smaller_of(many, measure_reads(READS));
        if (many <= one * READS_MOST)
            return;
    }
    fail_msg("to compile, a read takes %.3f s, %d reads take %.3f s; expected at most %d times as long", one, READS,
             many, READS_MOST);
}

/* Measures a kernel that loads `count` neighbouring elements into variables. Each round of a loop uses the values of
 * the round before; among such values LLVM looks for sums. */
static double measure_neighbours(unsigned count)
{
    struct text source = {0};
    char text[160];

    add(&source, "kernel void k(global const int *in, global int *out)\n", 1);
    add(&source, "{ int i = get_global_id(0), r = 0; global const int *p = in + i;\n", 1);
    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof text, "int v%u = p[%u];\n", i, i);
        add(&source, text, 1);
    }
    add(&source, "for (int q = 0; q < in[i]; q++) { p += 99;\n", 1);
    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof text, "r ^= v%u * %u; v%u = p[%u];\n", i, i * 7919 % 100003, i, i);
        add(&source, text, 1);
    }
    add(&source, "} out[i] = r; }\n", 1);
    double took = measure_source(&source, "spirv:1.2");
    free(source.bytes);
    return took;
}

static void neighbours_in_spirv_compile_in_proportion(void **state)
{
    enum { NEIGHBOURS = 250 };

    (void)state;
    if (!backend->knows("spirv", "1.2"))
        skip();
    double few = 0, many = 0;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        few = smaller_of(few, measure_neighbours(NEIGHBOURS));
        many = smaller_of(many, measure_neighbours(NEIGHBOURS * LARGER));
        if (many <= few * LARGER_MOST)
            return;
    }
    fail_msg("to compile, %d neighbours take %.3f s, %d take %.3f s; expected at most %d times as long", NEIGHBOURS,
             few, NEIGHBOURS * LARGER, many, LARGER_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_compile_as_fast_as_plain_code),
        cmocka_unit_test(comparisons_compile_as_fast_as_plain_code),
        cmocka_unit_test(jumps_compile_as_fast_as_plain_code),
        cmocka_unit_test(growing_switches_compile_in_proportion),
        cmocka_unit_test(growing_barriers_compile_in_proportion),
        cmocka_unit_test(growing_branches_compile_in_proportion),
        cmocka_unit_test(calls_compile_as_fast_as_plain_code),
        cmocka_unit_test(reads_of_images_compile_in_proportion),
        cmocka_unit_test(atomics_compile_as_fast_as_plain_code),
        cmocka_unit_test(neighbours_in_spirv_compile_in_proportion),
    };

    return cmocka_run_group_tests(tests, open_backend, NULL);
}
