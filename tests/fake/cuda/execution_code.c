/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the memory of modules on devices: their globals, and the code of each function that was asked for.
 * Never: holds code: in each context in which a function is loaded, it takes the bytes that fake_state() sets for it.
 */
#include <stdlib.h>
#include <string.h>

#include "execution.h"
#include "memory.h"

static uint64_t code_bytes(void)
{
    return fake_state()->code_bytes;
}

/* A piece of a module in a context: a function's code. If `function` is NULL, the globals, or the whole module. */
struct piece {
    struct piece *next;
    CUmodule module;
    CUfunction function;
    CUcontext context;
    struct fake_block *block;
};

static struct piece *pieces; /* under the memory lock */

bool fake_code_is_eager(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");

    return fake_model.eager || (mode && strcmp(mode, "EAGER") == 0);
}

static struct piece *find_piece(CUmodule module, CUfunction function, CUcontext context)
{
    struct piece *piece = pieces;

    while (piece && (piece->module != module || piece->function != function || piece->context != context))
        piece = piece->next;
    return piece;
}

static struct piece *load_piece(CUmodule module, CUfunction function, CUcontext context, uint64_t bytes)
{
    struct piece *piece = find_piece(module, function, context);

    if (piece)
        return piece;
    struct fake_block *block = fake_memory_make_driver_block(context, FAKE_MODULE, bytes);
    if (!block)
        return NULL;
    piece = malloc(sizeof *piece);
    if (!piece)
        abort();
    *piece = (struct piece){pieces, module, function, context, block};
    pieces = piece;
    return piece;
}

/* With eager loading, a module that does not list its functions counts the code of one function. */
static bool load_globals(CUmodule module, CUcontext context)
{
    uint64_t bytes = module->globals_bytes;

    if (fake_code_is_eager() && !module->lists_functions)
        bytes += code_bytes();
    return !bytes || load_piece(module, NULL, context, bytes);
}

static bool load_function(CUfunction function, CUcontext context)
{
    bool with_module = fake_code_is_eager() && !function->module->lists_functions;

    return load_globals(function->module, context) &&
           (code_bytes() == 0 || with_module || load_piece(function->module, function, context, code_bytes()));
}

CUresult fake_code_load(CUfunction function, CUcontext context)
{
    fake_memory_lock();
    bool loaded = load_function(function, context);
    fake_memory_unlock();
    if (loaded)
        atomic_store(&function->loaded_in, context->id);
    return loaded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_code_globals(CUmodule module, CUcontext context, uint64_t *ret_address)
{
    fake_memory_lock();
    bool loaded = load_globals(module, context);
    if (loaded)
        *ret_address = find_piece(module, NULL, context)->block->address;
    fake_memory_unlock();
    return loaded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Removes the pieces of a module, or of a context. The memory of a module's pieces is freed. */
static void remove_pieces(CUmodule module, CUcontext context)
{
    for (struct piece **at = &pieces; *at;) {
        struct piece *piece = *at;

        if (module ? piece->module != module : piece->context != context) {
            at = &piece->next;
            continue;
        }
        *at = piece->next;
        if (piece->function)
            atomic_store(&piece->function->loaded_in, 0);
        if (module)
            fake_memory_free_block(piece->block);
        free(piece);
    }
}

void fake_code_unload(CUmodule module)
{
    fake_memory_lock();
    remove_pieces(module, NULL);
    fake_memory_unlock();
}

/* The driver waits for a context's work before the context ends. */
void fake_execution_context_ended(CUcontext context)
{
    fake_sleep_until(atomic_load(&fake_execution_of(context)->all_ns));
    fake_memory_lock();
    remove_pieces(NULL, context);
    fake_memory_unlock();
}

CUresult fake_code_load_all(CUmodule module, CUcontext context)
{
    fake_memory_lock();
    bool loaded = load_globals(module, context);
    for (CUfunction function = module->functions; function && loaded; function = function->next)
        loaded = load_function(function, context);
    if (!loaded)
        remove_pieces(module, NULL);
    fake_memory_unlock();
    return loaded ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
