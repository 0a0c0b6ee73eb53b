/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lower_group.c, lower_region.c, lower_outline.c and lower_cuts.c share, which together make a work-group's
 * function.
 *
 * Owns: the state while one function is made. Never: is included in other files.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_GROUP_H
#define FACET_KERNEL_COMPILE_LOWER_GROUP_H

#include "lower_inside.h"

/* A value that lives across a barrier. */
struct facet_kept {
    LLVMValueRef value;
    LLVMValueRef slot, current, next; /* made by facet_outline_slot() and facet_outline_uniform() */
    bool uniform;                 /* the same for all items: `current` is a variable, `next` its value after the loop */
    uint32_t current_at, next_at; /* offsets of `current` and `next` in the shared memory of outlined regions */
    uint32_t frame;               /* of a value that is not uniform: its offset in the item's frame */
    uint32_t defined;             /* the block that defines the value */
    bool *live;                   /* for each region: the value is live at its beginning */
};

struct facet_region {
    LLVMBasicBlockRef start, after; /* in the run function */
    uint32_t block;                 /* in the source */
    bool *contains;                 /* for each block: it is part of the region */
};

/* The run function's values of the members below, saved while a region is made that is a function of its own. */
struct facet_outline {
    LLVMValueRef run, state;
    LLVMBuilderRef entry;
    LLVMBasicBlockRef start, after;
};

struct facet_former {
    struct facet_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder, entry; /* `builder` is at the code that is being made, `entry` at code before all loops */
    LLVMValueRef source, run;
    struct facet_group_layout *group;
    struct facet_graph graph;
    struct facet_shapes shapes;
    struct facet_map once;    /* values and calls that are the same everywhere in the group */
    struct facet_map kept;    /* value -> struct facet_kept */
    struct facet_map private; /* alloca -> place in the frame + 1 */
    struct facet_kept **kept_list;
    uint32_t kept_count, region_count;
    struct facet_region *regions;
    uint32_t *region_of;      /* block -> region + 1 */
    LLVMValueRef counters[4]; /* x, y, z of the chunk, and its number */
    LLVMValueRef reached;     /* a variable: the number of the region that runs next */
    bool guarded;         /* items may reach different barriers: undefined, but it must do no harm outside the group */
    uint32_t wait_offset; /* guarded: where an item's frame says which region it waits for */
    uint32_t align;       /* of a frame */
    LLVMValueRef *places; /* ids and private memory, whose values are set at the start of an item */
    uint32_t place_count;
    bool outlined;      /* regions are functions of their own, which share the memory `state` */
    LLVMValueRef state; /* of state_bytes, aligned to state_align */
    uint32_t state_bytes, state_align;
    struct facet_outline *outline; /* the region's function that is being made; NULL: none */
    struct facet_map shared;       /* values of `once`: their offset in `state` + 1 */
    struct facet_map in_outline;   /* values of `once`: their value in the region's function that is being made */
    LLVMTypeRef i32, i64;
};

LLVMValueRef facet_group_number(const struct facet_former *former, uint32_t value);
/* Loads the member at `offset` of struct facet_host_group, before all loops. */
LLVMValueRef facet_group_field(struct facet_former *former, LLVMTypeRef type, uint32_t offset);
LLVMValueRef facet_group_size(struct facet_former *former, uint32_t dimension);
LLVMValueRef facet_group_first(struct facet_former *former, uint32_t dimension); /* global id of the first item */
LLVMValueRef facet_group_slot(struct facet_former *former, LLVMTypeRef type);
void facet_group_counters(struct facet_former *former);
/* The result of a call that is the same for the whole group; NULL: the call is not. */
LLVMValueRef facet_group_call(struct facet_former *former, LLVMValueRef call);
/* Makes the loops over all items, their bodies, and the jump to the next region. */
void facet_group_region(struct facet_former *former, struct facet_region *region, LLVMBasicBlockRef end);

/* Between start and finish, values are put into the shared memory. Between begin and end all code goes into the
 * region's own function; end moves the builder back to the run function, and returns the region that was reached. */
void facet_outline_start(struct facet_former *former);
void facet_outline_finish(struct facet_former *former);
uint32_t facet_outline_reserve(struct facet_former *former, LLVMTypeRef type);
void facet_outline_begin(struct facet_former *former, struct facet_region *region, struct facet_outline *outline);
LLVMValueRef facet_outline_end(struct facet_former *former, struct facet_region *region);
/* For regions of both kinds: a value that is known before all loops, or NULL; variables of kept values. */
LLVMValueRef facet_outline_once(struct facet_former *former, LLVMValueRef value);
LLVMValueRef facet_outline_slot(struct facet_former *former, struct facet_kept *kept);
LLVMValueRef facet_outline_uniform(struct facet_former *former, struct facet_kept *kept, bool next);

/* Puts barriers of our own where paths join (lower_cuts.c). True: it put some, so make graph and shapes anew. */
bool facet_cuts_make(struct facet_arena *arena, LLVMBuilderRef builder, const struct facet_graph *graph,
                     const struct facet_shapes *shapes);

#endif
