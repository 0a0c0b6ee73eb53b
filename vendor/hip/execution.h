/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime's execution: streams, events, modules, launches, graphs, copies in stream order.
 *
 * Owns: declarations, as vendor/hip/runtime.h says. A function with a form for the per-thread default stream is
 * declared with it: name_spt, which differs only in the meaning of a NULL stream.
 */
#ifndef VENDOR_HIP_EXECUTION_H
#define VENDOR_HIP_EXECUTION_H

#include "vendor/hip/memory.h"

typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;

typedef struct dim3 {
    uint32_t x, y, z;
} dim3;

typedef void (*hipHostFn_t)(void *data);
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void *data);

#define hipStreamLegacy    ((hipStream_t)1)
#define hipStreamPerThread ((hipStream_t)2)

enum { hipStreamDefault = 0, hipStreamNonBlocking = 1 };
enum {
    hipEventDefault = 0,
    hipEventBlockingSync = 1,
    hipEventDisableTiming = 2,
    hipEventInterprocess = 4,
};
enum { hipExtAnyOrderLaunch = 1 }; /* a flag of hipExtLaunchKernel */

typedef int hipStreamCaptureStatus;
enum {
    hipStreamCaptureStatusNone = 0,
    hipStreamCaptureStatusActive = 1,
    hipStreamCaptureStatusInvalidated = 2,
};
typedef int hipStreamCaptureMode;
enum { hipStreamCaptureModeGlobal = 0, hipStreamCaptureModeThreadLocal = 1, hipStreamCaptureModeRelaxed = 2 };

/* hipFunction_attribute, as far as it is used. */
enum {
    HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    HIP_FUNC_ATTRIBUTE_NUM_REGS = 4,
};

typedef struct hipLaunchAttribute_st hipLaunchAttribute; /* not looked into */
typedef struct hipGraphEdgeData_st hipGraphEdgeData;     /* not looked into */

typedef struct hipLaunchConfig_st {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    hipStream_t stream;
    hipLaunchAttribute *attrs;
    unsigned numAttrs;
} hipLaunchConfig_t;

typedef struct HIP_LAUNCH_CONFIG_st {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    hipStream_t hStream;
    hipLaunchAttribute *attrs;
    unsigned numAttrs;
} HIP_LAUNCH_CONFIG;

/* Of launches on several devices: by the host's symbol, and by function. */
typedef struct hipLaunchParams_t {
    void *func;
    dim3 gridDim, blockDim;
    void **args;
    size_t sharedMem;
    hipStream_t stream;
} hipLaunchParams;

typedef struct hipFunctionLaunchParams_t {
    hipFunction_t function;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    hipStream_t hStream;
    void **kernelParams;
} hipFunctionLaunchParams;

typedef struct hipKernelNodeParams {
    dim3 blockDim;
    void **extra;
    void *func; /* the host's symbol, or a hipFunction_t */
    dim3 gridDim;
    void **kernelParams;
    unsigned sharedMemBytes;
} hipKernelNodeParams;

#define VENDOR_HIP_BOTH(name, ...)                                                                                     \
    hipError_t name(__VA_ARGS__);                                                                                      \
    hipError_t name##_spt(__VA_ARGS__)

/* Streams. */
hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest);
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream, unsigned flags, int priority);
hipError_t hipExtStreamCreateWithCUMask(hipStream_t *stream, uint32_t words, const uint32_t *mask);
hipError_t hipExtStreamGetCUMask(hipStream_t stream, uint32_t words, uint32_t *mask);
hipError_t hipStreamDestroy(hipStream_t stream);
VENDOR_HIP_BOTH(hipStreamQuery, hipStream_t stream);
VENDOR_HIP_BOTH(hipStreamSynchronize, hipStream_t stream);
VENDOR_HIP_BOTH(hipStreamWaitEvent, hipStream_t stream, hipEvent_t event, unsigned flags);
VENDOR_HIP_BOTH(hipStreamAddCallback, hipStream_t stream, hipStreamCallback_t callback, void *data, unsigned flags);
VENDOR_HIP_BOTH(hipLaunchHostFunc, hipStream_t stream, hipHostFn_t function, void *data);
VENDOR_HIP_BOTH(hipStreamGetFlags, hipStream_t stream, unsigned *flags);
VENDOR_HIP_BOTH(hipStreamGetPriority, hipStream_t stream, int *priority);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device);
int hipGetStreamDeviceId(hipStream_t stream); /* -1 when there is none */

/* Capture. */
VENDOR_HIP_BOTH(hipStreamBeginCapture, hipStream_t stream, hipStreamCaptureMode mode);
VENDOR_HIP_BOTH(hipStreamEndCapture, hipStream_t stream, hipGraph_t *graph);
VENDOR_HIP_BOTH(hipStreamIsCapturing, hipStream_t stream, hipStreamCaptureStatus *status);
VENDOR_HIP_BOTH(hipStreamGetCaptureInfo, hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id);
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                        const hipGraphEdgeData *edges, size_t count, hipStreamCaptureMode mode);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode);

/* Events. */
hipError_t hipEventCreate(hipEvent_t *event);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end);
VENDOR_HIP_BOTH(hipEventRecord, hipEvent_t event, hipStream_t stream);
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags);

/* Keys of a launch's `extra`: arguments as they lie in memory. */
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x2)
#define HIP_LAUNCH_PARAM_END            ((void *)0x3)

/* Modules. */
hipError_t hipModuleLoad(hipModule_t *module, const char *path);
hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned count, int *options, void **values);
hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
hipError_t hipFuncGetAttribute(int *value, int attribute, hipFunction_t function);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function, int block_size,
                                                              size_t shared);

/* Libraries, of 7.2: loaded when something is first asked of them. */
typedef struct ihipLibrary_t *hipLibrary_t;
typedef struct ihipKernel_t *hipKernel_t;
hipError_t hipLibraryLoadData(hipLibrary_t *library, const void *code, int *options, void **values, unsigned count,
                              int *library_options, void **library_values, unsigned library_count);
hipError_t hipLibraryLoadFromFile(hipLibrary_t *library, const char *path, int *options, void **values, unsigned count,
                                  int *library_options, void **library_values, unsigned library_count);
hipError_t hipLibraryUnload(hipLibrary_t library);
hipError_t hipLibraryGetKernel(hipKernel_t *kernel, hipLibrary_t library, const char *name);
hipError_t hipLibraryGetKernelCount(unsigned *count, hipLibrary_t library);

/*
 * Functions that hipcc's output calls: its code objects are registered when the program starts, each kernel by the
 * address of its host symbol, which hipLaunchKernel() is then given.
 */
void **__hipRegisterFatBinary(const void *wrapper);
void __hipUnregisterFatBinary(void **modules);
void __hipRegisterFunction(void **modules, const void *host, char *device_name, const char *name, unsigned threads,
                           void *thread_id, void *block_id, dim3 *block, dim3 *grid, int *warp);
void __hipRegisterVar(void **modules, void *host, char *host_name, char *device_name, int external, size_t size,
                      int constant, int global);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
/* `pointer` is where the program has the variable's address. */
void __hipRegisterManagedVar(void *modules, void **pointer, void *start, const char *name, size_t size,
                             unsigned alignment);

/* Queries of a kernel or a variable by its host symbol. */
struct hipFuncAttributes; /* not looked into */
hipError_t hipFuncGetAttributes(struct hipFuncAttributes *attributes, const void *host);
hipError_t hipGetSymbolAddress(void **address, const void *host);
hipError_t hipGetSymbolSize(size_t *size, const void *host);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int block_size, size_t shared);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int block_size,
                                                                 size_t shared, unsigned flags);
hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host, size_t shared, int limit);
hipError_t hipGetFuncBySymbol(hipFunction_t *function, const void *host);

struct vendor_hip_fat_binary {
    uint32_t magic; /* VENDOR_HIP_FAT_BINARY */
    uint32_t version;
    const void *binary;
    void *unused;
};
#define VENDOR_HIP_FAT_BINARY 0x48495046u /* "HIPF" */

/* Launches. In hipModuleLaunchKernel and all but its _ext forms a grid counts blocks; there it counts threads. */
VENDOR_HIP_BOTH(hipLaunchKernel, const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                hipStream_t stream);
VENDOR_HIP_BOTH(hipLaunchCooperativeKernel, const void *host, dim3 grid, dim3 block, void **arguments, unsigned shared,
                hipStream_t stream);
hipError_t hipExtLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
                              hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *host, void **arguments);
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **parameters,
                                void **extra);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                 hipStream_t stream, void **parameters, void **extra);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                            hipStream_t stream, void **parameters);
hipError_t hipModuleLaunchCooperativeKernelMultiDevice(hipFunctionLaunchParams *launches, unsigned count,
                                                       unsigned flags);
hipError_t hipLaunchCooperativeKernelMultiDevice(hipLaunchParams *launches, int count, unsigned flags);
hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams *launches, int count, unsigned flags);
hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t shared, hipStream_t stream);
hipError_t hipSetupArgument(const void *argument, size_t size, size_t offset);
hipError_t hipLaunchByPtr(const void *host);

/* hipExtModuleLaunchKernel, under its C name and that of C++; hipHccModuleLaunchKernel, the same without flags. */
#define VENDOR_HIP_EXT_LAUNCH_PARAMETERS                                                                               \
    hipFunction_t function, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z, uint32_t block_x,              \
        uint32_t block_y, uint32_t block_z, size_t shared, hipStream_t stream, void **parameters, void **extra,        \
        hipEvent_t start, hipEvent_t stop
hipError_t hipExtModuleLaunchKernel(VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags);
hipError_t _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
    VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags);
hipError_t _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
    VENDOR_HIP_EXT_LAUNCH_PARAMETERS);

/* hip_impl::hipLaunchKernelGGLImpl(), to which older hipcc's launches came down: the address is the host's symbol's. */
void _ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(uintptr_t host, const dim3 *grid,
                                                                         const dim3 *block, uint32_t shared,
                                                                         hipStream_t stream, void **arguments);

/* Graphs. */
hipError_t hipGraphCreate(hipGraph_t *graph, unsigned flags);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                 size_t count, const hipKernelNodeParams *parameters);
hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                size_t count);
hipError_t hipGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, hipGraphNode_t *error_node, char *log,
                               size_t size);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *executable, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);
hipError_t hipGraphUpload(hipGraphExec_t executable, hipStream_t stream);
VENDOR_HIP_BOTH(hipGraphLaunch, hipGraphExec_t executable, hipStream_t stream);

/* Copies and fills in stream order. */
VENDOR_HIP_BOTH(hipMemcpyAsync, void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyWithStream(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void *from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                              hipStream_t stream);
VENDOR_HIP_BOTH(hipMemsetAsync, void *to, int value, size_t bytes, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemset2DAsync, void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream);
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream);
hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream);

#endif
