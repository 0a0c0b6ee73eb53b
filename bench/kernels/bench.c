/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel of the set on PoCL, on Facet, and as a loop in C, in turn, in one process: run by bench/kernel.py, which
 * compares.
 *
 * Owns: inputs, the interleaved rounds, and the check of both outputs against the plain C reference.
 * Never: compares times, or hides that a way's output is wrong.
 *
 * usage: bench_kernel list
 *        bench_kernel run KERNEL SOURCES PROVIDER ROUNDS MILLISECONDS
 *        bench_kernel hit KERNEL SOURCES PROVIDER
 *
 * SOURCES: the folder of the .cl files. PROVIDER: facet-provider-cpu.so. MILLISECONDS: the length of one way in a
 * round. Prints JSON on one line.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "way.h"

#define ROUNDS_MOST    64u
#define LAUNCHES_LEAST 2u

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_kernel: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void *make_memory(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory)
        die("calloc", strerror(errno));
    return memory;
}

/* ---- inputs of a kernel ---- */

static void read_source(struct bench_data *data, const char *folder)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.cl", folder, data->kernel->file);
    file = fopen(path, "re");
    if (!file)
        die(path, strerror(errno));
    data->source = make_memory(65536);
    data->source_bytes = fread(data->source, 1, 65535, file);
    fclose(file);
}

static void prepare_data(struct bench_data *data, const char *name, const char *folder)
{
    data->kernel = bench_kernel_find(name);
    if (!data->kernel)
        die(name, "no such kernel in the set; `bench_kernel list` names them");
    read_source(data, folder);
    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST; i++) {
        const struct bench_argument *argument = &data->kernel->arguments[i];

        if (argument->kind < BENCH_IN)
            continue;
        data->input[i] = make_memory(bench_argument_bytes(argument));
        data->expected[i] = data->input[i];
        if (argument->kind == BENCH_IN)
            argument->fill(data->input[i], argument->count, i + 1);
        else
            data->expected[i] = make_memory(bench_argument_bytes(argument));
    }
    data->kernel->reference(data->expected);
}

/* ---- checking the output ---- */

static double element_error(const struct bench_argument *argument, const void *actual, const void *expected, size_t at)
{
    if (argument->element == BENCH_U8)
        return ((const uint8_t *)actual)[at] == ((const uint8_t *)expected)[at] ? 0 : INFINITY;
    if (argument->element == BENCH_U32)
        return ((const uint32_t *)actual)[at] == ((const uint32_t *)expected)[at] ? 0 : INFINITY;
    double x = (double)((const float *)actual)[at], y = (double)((const float *)expected)[at];

    if (isnan(x) || isnan(y))
        return INFINITY;
    return fabs(x - y) / fmax(1, fabs(y));
}

static bool verify_output(struct bench_way *way, const struct bench_data *data)
{
    way->error = 0;
    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST; i++) {
        const struct bench_argument *argument = &data->kernel->arguments[i];
        size_t bytes = bench_argument_bytes(argument);
        void *actual;

        if (argument->kind != BENCH_OUT)
            continue;
        actual = make_memory(bytes);
        if (!way->read(way, i, actual, bytes)) {
            free(actual);
            return false;
        }
        for (size_t at = 0; at < argument->count; at++)
            way->error = fmax(way->error, element_error(argument, actual, data->expected[i], at));
        free(actual);
    }
    return true;
}

/* ---- rounds ---- */

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a == 0 || b < a ? b : a;
}

static bool sample_launches(struct bench_way *way, uint64_t duration_ns, struct bench_sample *ret_sample)
{
    struct bench_sample best = {0};
    uint64_t begin = bench_now_ns();

    do {
        uint64_t device_ns, start = bench_now_ns();

        if (!way->launch(way, &device_ns))
            return false;
        best.wall_ns = smaller_of(best.wall_ns, bench_now_ns() - start);
        best.device_ns = smaller_of(best.device_ns, device_ns);
        best.launches++;
    } while (best.launches < LAUNCHES_LEAST || bench_now_ns() - begin < duration_ns);
    *ret_sample = best;
    return true;
}

/* ---- output ---- */

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static void print_missing(const char *name, const char *missing)
{
    printf(",\"%s\":{\"missing\":", name);
    print_text(missing);
    putchar('}');
}

static void print_building(const struct bench_building *building)
{
    printf("\"cold_ns\":%" PRIu64 ",\"again_ns\":%" PRIu64 ",\"warm_ns\":%" PRIu64 ",\"first_launch_ns\":%" PRIu64
           ",\"hit_to_launch_ns\":%" PRIu64,
           building->cold_ns, building->again_ns, building->warm_ns, building->first_launch_ns,
           building->hit_to_launch_ns);
}

static void print_way(const struct bench_way *way, const struct bench_kernel *kernel,
                      const struct bench_sample *samples, unsigned rounds)
{
    if (*way->missing) {
        print_missing(way->name, way->missing);
        return;
    }
    printf(",\"%s\":{", way->name);
    print_building(&way->building);
    printf(",\"right\":%s,\"error\":", way->error <= kernel->tolerance ? "true" : "false");
    if (isinf(way->error))
        fputs("null", stdout);
    else
        printf("%g", way->error);
    fputs(",\"rounds\":[", stdout);
    for (unsigned i = 0; i < rounds; i++)
        printf("%s{\"device_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"launches\":%" PRIu64 "}", i ? "," : "",
               samples[i].device_ns, samples[i].wall_ns, samples[i].launches);
    fputs("]}", stdout);
}

/* ---- verbs ---- */

#define WAYS 4u

static int list_kernels(void)
{
    const struct bench_kernel *kernel;

    for (size_t i = 0; (kernel = bench_kernel_at(i)) != NULL; i++)
        printf("%s{\"kernel\":\"%s\",\"name\":\"%s\",\"tag\":\"%s\"}", i ? "," : "[", kernel->label, kernel->name,
               kernel->tag);
    puts("]");
    return EXIT_SUCCESS;
}

static uint64_t parse_number(const char *text, uint64_t low, uint64_t high)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (end == text || *end || value < low || value > high) {
        fprintf(stderr, "bench_kernel: '%s': expected a number from %" PRIu64 " to %" PRIu64 "\n", text, low, high);
        exit(2);
    }
    return value;
}

static int run_rounds(const struct bench_data *data, const char *provider, unsigned rounds, uint64_t duration_ns)
{
    struct bench_sample samples[WAYS][ROUNDS_MOST] = {0};
    struct bench_way ways[WAYS];

    bench_way_pocl(&ways[0]);
    bench_way_facet(&ways[1], provider);
    bench_way_loop(&ways[2]);
    bench_way_touch(&ways[3]);
    for (unsigned i = 0; i < WAYS; i++)
        if (ways[i].build(&ways[i], data) && ways[i].read)
            verify_output(&ways[i], data);
    for (unsigned turn = 0; turn < rounds * WAYS; turn++) {
        unsigned which = (turn + turn / WAYS) % WAYS;

        if (!*ways[which].missing)
            sample_launches(&ways[which], duration_ns, &samples[which][turn / WAYS]);
    }
    printf("{\"kernel\":\"%s\",\"tag\":\"%s\"", data->kernel->label, data->kernel->tag);
    for (unsigned i = 0; i < WAYS; i++)
        print_way(&ways[i], data->kernel, samples[i], rounds);
    puts("}");
    return EXIT_SUCCESS;
}

static int run_hit(const struct bench_data *data, const char *provider)
{
    struct bench_building building;
    char missing[512];

    printf("{\"kernel\":\"%s\"", data->kernel->label);
    if (bench_facet_hit(data, provider, &building, missing, sizeof missing)) {
        fputs(",\"facet\":{", stdout);
        print_building(&building);
        putchar('}');
    } else {
        print_missing("facet", missing);
    }
    puts("}");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct bench_data data = {0};
    int status;

    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list_kernels();
    bool runs = argc == 7 && strcmp(argv[1], "run") == 0, hits = argc == 5 && strcmp(argv[1], "hit") == 0;

    if (!runs && !hits) {
        fputs("usage: bench_kernel list\n"
              "       bench_kernel run KERNEL SOURCES PROVIDER ROUNDS MILLISECONDS\n"
              "       bench_kernel hit KERNEL SOURCES PROVIDER\n",
              stderr);
        return 2;
    }
    prepare_data(&data, argv[2], argv[3]);
    if (hits)
        status = run_hit(&data, argv[4]);
    else
        status = run_rounds(&data, argv[4], (unsigned)parse_number(argv[5], 1, ROUNDS_MOST),
                            parse_number(argv[6], 1, 600000) * UINT64_C(1000000));
    return fflush(stdout) ? EXIT_FAILURE : status;
}
