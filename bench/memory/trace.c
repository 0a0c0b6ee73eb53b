/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a trace (trace.h).
 * Never: skips a malformed line; it ends the program.
 */
#include "trace.h"

#include "common.h"

#define TOKEN_BYTES (128 * KIB) /* keys and values of Llama 3 8B: 32 layers, 8 heads of 128, two of 2 bytes */
#define TOKEN_S     0.020

static void add_request(struct trace *trace, struct request request)
{
    /* The array doubles whenever the count reaches a power of two. */
    if ((trace->count & (trace->count - 1)) == 0) {
        uint32_t room = trace->count ? trace->count * 2 : 1;

        trace->requests = realloc(trace->requests, room * sizeof request);
        if (!trace->requests)
            die("trace", "no memory");
    }
    trace->requests[trace->count++] = request;
}

struct trace trace_read(const char *path, double rate)
{
    struct trace trace = {0};
    FILE *file = fopen(path, "r");
    unsigned day, hour, minute, context, generated;
    double second;

    if (!file)
        die(path, "cannot be opened");
    if (fscanf(file, "TIMESTAMP,ContextTokens,GeneratedTokens ") != 0)
        die(path, "expected a trace with the columns TIMESTAMP,ContextTokens,GeneratedTokens");
    while (fscanf(file, "%*u-%*u-%u %u:%u:%lf,%u,%u ", &day, &hour, &minute, &second, &context, &generated) == 6)
        add_request(&trace, (struct request){
                                .arrival_s = (((day * 24.0 + hour) * 60 + minute) * 60 + second) / rate,
                                .lifetime_s = generated * TOKEN_S,
                                .bytes = ((uint64_t)context + generated) * TOKEN_BYTES,
                            });
    if (!feof(file) || !trace.count)
        die(path, "has a line that is no request");
    fclose(file);
    return trace;
}
