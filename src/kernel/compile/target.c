/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the families of targets, with the settings of a compile for each; the processor's features.
 * Never: accepts a processor that LLVM does not know, since LLVM would silently make code for another processor.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

#include "base/cleanup.h"
#include "base/processor.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/shims.h"

/* All lists and names here have room for the longest text: sizes are checked where texts come in. Strings of several
 * lines in a list are intended. */
/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.strcpy, bugprone-suspicious-missing-comma) */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
/* The alignment of loops. A short loop then lies in one line of the cache of decoded instructions instead of two, which
 * saves a quarter of a sparse product's time. */
#define LOOP_BYTES 32

/* Extensions that the built-in library has, and that clang does not define for the target. */
#define EXTENSIONS                                                                                                     \
    "-cl-ext=+cl_khr_fp64,+cl_khr_int64_base_atomics,+cl_khr_int64_extended_atomics,+cl_khr_3d_image_writes,"          \
    "+__opencl_c_images,+__opencl_c_3d_image_writes,+__opencl_c_fp64"

/* For the host, clang compiles for nvptx64, whose names and types libclc's generic library uses. Sources that test for
 * the device must not take the host for an NVIDIA GPU. */
static const char *const host_arguments[] = {"-U__NVPTX__",
                                             "-U__PTX__",
                                             "-D__OPENCL_VERSION__=120",
                                             "-D__IMAGE_SUPPORT__=1",
                                             EXTENSIONS,
                                             "-disable-lifetime-markers",
                                             NULL};
static const char *const ptx_arguments[] = {"-D__OPENCL_VERSION__=120", EXTENSIONS, NULL};
static const char *const amdgcn_arguments[] = {"-D__OPENCL_VERSION__=120",
                                               "-mrelocation-model",
                                               "pic",
                                               "-pic-level",
                                               "2",
                                               "-fvisibility=hidden",
                                               "-fapply-global-visibility-to-externs",
                                               "-mcode-object-version=5",
                                               NULL};
static const char *const spirv_arguments[] = {"-D__OPENCL_VERSION__=120", NULL};

enum { AMDGPU_KERNEL = 91, PTX_KERNEL = 71, SPIR_KERNEL = 76 };

static const struct facet_compile_flavour flavours[FACET_COMPILE_FAMILIES] = {
    [FACET_COMPILE_HOST] = {"host", "nvptx64-nvidia-cuda", "x86_64-pc-linux-gnu", "facet-builtins-host.bc",
                            host_arguments, PTX_KERNEL},
    [FACET_COMPILE_PTX] = {"ptx", "nvptx64-nvidia-cuda", "nvptx64-nvidia-cuda", "facet-builtins-ptx.bc", ptx_arguments,
                           PTX_KERNEL},
    [FACET_COMPILE_AMDGCN] = {"amdgcn", "amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa", "facet-builtins-amdgcn.bc",
                              amdgcn_arguments, AMDGPU_KERNEL},
    [FACET_COMPILE_SPIRV] = {"spirv", "spir64", NULL, NULL, spirv_arguments, SPIR_KERNEL},
};

static const char *const spirv_triples[][2] = {
    {"1.0", "spirv64v1.0-unknown-unknown"},
    {"1.1", "spirv64v1.1-unknown-unknown"},
    {"1.2", "spirv64v1.2-unknown-unknown"},
};

static void initialize_llvm(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); /* the lowering needs an instruction that can only be written as assembly */
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
#if FACET_HAVE_SPIRV_TARGET
    LLVMInitializeSPIRVTargetInfo();
    LLVMInitializeSPIRVTarget();
    LLVMInitializeSPIRVTargetMC();
    LLVMInitializeSPIRVAsmPrinter();
#endif
}

static void initialize_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, initialize_llvm);
}

/* Whether the build includes the family; families that it was configured without are unknown. */
static bool is_built(uint32_t family)
{
    return (FACET_HAVE_PTX_TARGET || family != FACET_COMPILE_PTX) &&
           (FACET_HAVE_AMDGCN_TARGET || family != FACET_COMPILE_AMDGCN);
}

static bool find_family(const char *name, size_t length, enum facet_compile_family *ret_family)
{
    for (uint32_t i = 0; i < FACET_COMPILE_FAMILIES; i++) {
        if (!is_built(i) || strlen(flavours[i].name) != length || strncmp(flavours[i].name, name, length) != 0)
            continue;
        *ret_family = (enum facet_compile_family)i;
        return true;
    }
    return false;
}

static const char *spirv_triple(const char *version)
{
    for (size_t i = 0; FACET_HAVE_SPIRV_TARGET && i < COUNT(spirv_triples); i++)
        if (strcmp(version, spirv_triples[i][0]) == 0)
            return spirv_triples[i][1];
    return NULL;
}

int facet_compile_knows(const char *family, const char *processor)
{
    enum facet_compile_family found;

    initialize_once();
    if (!family || !processor || !processor[0] || !find_family(family, strlen(family), &found))
        return 0;
    if (found == FACET_COMPILE_SPIRV)
        return spirv_triple(processor) != NULL;
    return facet_shim_knows(flavours[found].triple, processor);
}

/* Features by LLVM's name and by the name in /proc/cpuinfo. */
static const char *const cpu_features[][2] = {
    {"sse3", "pni"},
    {"ssse3", "ssse3"},
    {"sse4.1", "sse4_1"},
    {"sse4.2", "sse4_2"},
    {"popcnt", "popcnt"},
    {"avx", "avx"},
    {"avx2", "avx2"},
    {"fma", "fma"},
    {"f16c", "f16c"},
    {"bmi", "bmi1"},
    {"bmi2", "bmi2"},
    {"lzcnt", "abm"},
    {"movbe", "movbe"},
    {"adx", "adx"},
    {"sha", "sha_ni"},
    {"avx512f", "avx512f"},
    {"avx512bw", "avx512bw"},
    {"avx512cd", "avx512cd"},
    {"avx512dq", "avx512dq"},
    {"avx512vl", "avx512vl"},
    {"avx512ifma", "avx512ifma"},
    {"avx512vbmi", "avx512vbmi"},
    {"avx512vbmi2", "avx512_vbmi2"},
    {"avx512vnni", "avx512_vnni"},
    {"avx512bitalg", "avx512_bitalg"},
    {"avx512vpopcntdq", "avx512_vpopcntdq"},
    {"avx512bf16", "avx512_bf16"},
    {"avx512fp16", "avx512_fp16"},
    {"avxvnni", "avx_vnni"},
    {"gfni", "gfni"},
    {"vaes", "vaes"},
    {"vpclmulqdq", "vpclmulqdq"},
};

enum { WITHHELD_SIZE = COUNT(cpu_features) * 24 }; /* characters of "-name," for all of them */

/* Adds a feature's name in /proc/cpuinfo to a list that has room for all names. */
static void list_feature(void *context, const char *name)
{
    char *list = context;

    for (size_t i = 0; i < COUNT(cpu_features); i++) {
        if (strcmp(cpu_features[i][0], name) == 0)
            strcat(strcat(list, list[0] ? "," : ""), cpu_features[i][1]);
    }
}

static void list_features(const char *processor, const char *features, char *ret_list)
{
    ret_list[0] = '\0';
    facet_shim_features(flavours[FACET_COMPILE_HOST].triple, processor, features, list_feature, ret_list);
}

/* This machine's processor, read once: that is slow on a virtual machine, and the answer does not change. */
static struct {
    char processor[FACET_COMPILE_NAME_SIZE];
    char machine_features[FACET_COMPILE_FEATURES_SIZE];
    char features[FACET_COMPILE_FEATURES_SIZE];
} this_host;

/* Drops a feature that the processor's name implies, since each feature costs time in every compiled function. */
static void drop_known(void *context, const char *name)
{
    char word[FACET_COMPILE_NAME_SIZE];
    char *list = context;

    if (strlen(name) + 3 > sizeof word)
        return;
    strcat(strcat(strcpy(word, "+"), name), ",");
    for (char *at = list; (at = strstr(at, word));) {
        if (at == list || at[-1] == ',')
            memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
        else
            at++;
    }
}

/* Drops "-name" of features that the processor does not have anyway; `had` is ",a,b,". */
static void drop_absent(char *list, const char *had)
{
    char word[FACET_COMPILE_NAME_SIZE];

    for (char *at = list; *at;) {
        size_t length = strcspn(at, ",") + 1;
        bool known = at[0] == '-' && length + 1 < sizeof word;
        if (known) {
            memcpy(word, at, length);
            word[0] = ',';
            word[length] = '\0';
        }
        if (known && !strstr(had, word))
            memmove(at, at + length, strlen(at + length) + 1);
        else
            at += length;
    }
}

static void append_feature(void *context, const char *name)
{
    char *had = context;

    if (strlen(had) + strlen(name) + 2 < FACET_COMPILE_FEATURES_SIZE)
        strcat(strcat(had, name), ",");
}

/*
 * Removes features that the processor reports and Linux does not list (clearcpuid=, a hypervisor's choice), since the
 * loader of an image asks Linux for features.
 */
static void withhold_unlisted(char *list)
{
    FACET_CLEANUP_FREE char *flags = facet_processor_features();
    char word[FACET_COMPILE_NAME_SIZE];

    for (size_t i = 0; flags && flags[2] && i < COUNT(cpu_features); i++) {
        snprintf(word, sizeof word, " %s ", cpu_features[i][1]);
        if (!strstr(flags, word))
            strcat(strcat(strcat(list, "-"), cpu_features[i][0]), ",");
    }
}

static void read_host_features(void)
{
    char had[FACET_COMPILE_FEATURES_SIZE] = ",", *list = this_host.machine_features;
    const char *triple = flavours[FACET_COMPILE_HOST].triple;
    char *name = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();

    snprintf(this_host.processor, sizeof this_host.processor, "%s", name);
    snprintf(list, sizeof this_host.machine_features - WITHHELD_SIZE, "%s,", features);
    LLVMDisposeMessage(name);
    LLVMDisposeMessage(features);
    withhold_unlisted(list);
    facet_shim_features(triple, this_host.processor, "", append_feature, had);
    facet_shim_features(triple, this_host.processor, "", drop_known, list);
    drop_absent(list, had);
    if (list[0])
        list[strlen(list) - 1] = '\0';
    list_features(this_host.processor, list, this_host.features);
}

void facet_compile_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    initialize_once();
    pthread_once(&once, read_host_features);
}

/* "host" is this processor with the features that Linux lets programs use; a named processor has the features that LLVM
 * knows of it. */
static void take_host(struct facet_compilation *compilation)
{
    if (compilation->processor[0]) {
        list_features(compilation->processor, "", compilation->features);
        return;
    }
    strcpy(compilation->processor, this_host.processor);
    strcpy(compilation->machine_features, this_host.machine_features);
    strcpy(compilation->features, this_host.features);
}

static enum facet_status refuse_target(const char *target, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "target",
                                "target '%.80s': expected a processor that LLVM %s knows", target, FACET_LLVM_VERSION);
}

enum facet_status facet_compile_target(struct facet_compilation *compilation, struct facet_error *error)
{
    const char *target = compilation->request->target, *colon = strchr(target, ':');
    size_t length = colon ? (size_t)(colon - target) : strlen(target);

    if (!find_family(target, length, &compilation->family) ||
        (colon && strlen(colon + 1) >= sizeof compilation->processor))
        return refuse_target(target, error);
    if (compilation->family == FACET_COMPILE_SPIRV && !FACET_HAVE_SPIRV_TARGET)
        return facet_error_argument(error, FACET_UNSUPPORTED, "target",
                                    "target '%.80s': LLVM %s was built without a code generator for SPIR-V", target,
                                    FACET_LLVM_VERSION);
    compilation->flavour = &flavours[compilation->family];
    if (colon)
        strcpy(compilation->processor, colon + 1);
    else if (compilation->family == FACET_COMPILE_SPIRV)
        strcpy(compilation->processor, "1.2");
    bool this_one = compilation->family == FACET_COMPILE_HOST && !compilation->processor[0];
    if (!this_one && !facet_compile_knows(compilation->flavour->name, compilation->processor))
        return refuse_target(target, error);
    if (compilation->family == FACET_COMPILE_HOST)
        take_host(compilation);
    strcpy(compilation->target, compilation->flavour->name);
    strcat(strcat(compilation->target, ":"), compilation->processor);
    return FACET_OK;
}

enum facet_status facet_compile_machine(struct facet_compilation *compilation, struct facet_error *error)
{
    static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault,
                                                 LLVMCodeGenLevelAggressive};
    /*
     * SPIR-V's generator optimizes nothing: it would make integers of odd widths after the pass that mends them
     * (widths.c).
     */
    bool spirv = compilation->family == FACET_COMPILE_SPIRV;
    const char *triple = spirv ? spirv_triple(compilation->processor) : compilation->flavour->triple;
    LLVMTargetRef target;
    char *message = NULL;

    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        enum facet_status status = facet_error_set(error, FACET_UNSUPPORTED, "LLVM %s has no code generator for %s: %s",
                                                   FACET_LLVM_VERSION, compilation->flavour->name, message);
        LLVMDisposeMessage(message);
        return status;
    }
    compilation->machine =
        LLVMCreateTargetMachine(target, triple, spirv ? "" : compilation->processor, compilation->machine_features,
                                levels[spirv ? 0 : compilation->optimize], LLVMRelocPIC, LLVMCodeModelDefault);
    if (compilation->machine && compilation->family == FACET_COMPILE_HOST && compilation->optimize > 0)
        facet_shim_align_loops(compilation->machine, LOOP_BYTES);
    return compilation->machine
               ? FACET_OK
               : facet_error_set(error, FACET_INTERNAL, "LLVM refuses the processor '%s'", compilation->processor);
}

/* NOLINTEND(clang-analyzer-security.insecureAPI.strcpy, bugprone-suspicious-missing-comma) */
