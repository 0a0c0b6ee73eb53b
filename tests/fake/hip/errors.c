/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the names and texts of results; a text is the name, except for frequent results. Never: answers with NULL. */
#include "fake.h"

static const struct {
    hipError_t error;
    const char *name, *text;
} errors[] = {
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorNotInitialized, "hipErrorNotInitialized", "not initialised"},
    {hipErrorDeinitialized, "hipErrorDeinitialized", "hipErrorDeinitialized"},
    {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration", "hipErrorInvalidConfiguration"},
    {hipErrorInvalidPitchValue, "hipErrorInvalidPitchValue", "hipErrorInvalidPitchValue"},
    {hipErrorInvalidSymbol, "hipErrorInvalidSymbol", "hipErrorInvalidSymbol"},
    {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer", "hipErrorInvalidDevicePointer"},
    {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection", "hipErrorInvalidMemcpyDirection"},
    {hipErrorInsufficientDriver, "hipErrorInsufficientDriver", "hipErrorInsufficientDriver"},
    {hipErrorInvalidDeviceFunction, "hipErrorInvalidDeviceFunction", "hipErrorInvalidDeviceFunction"},
    {hipErrorNoDevice, "hipErrorNoDevice", "no device is there"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "no such device"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "hipErrorInvalidImage"},
    {hipErrorInvalidContext, "hipErrorInvalidContext", "hipErrorInvalidContext"},
    {hipErrorMapFailed, "hipErrorMapFailed", "hipErrorMapFailed"},
    {hipErrorUnmapFailed, "hipErrorUnmapFailed", "hipErrorUnmapFailed"},
    {hipErrorAlreadyMapped, "hipErrorAlreadyMapped", "hipErrorAlreadyMapped"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu", "hipErrorNoBinaryForGpu"},
    {hipErrorNotMapped, "hipErrorNotMapped", "hipErrorNotMapped"},
    {hipErrorECCNotCorrectable, "hipErrorECCNotCorrectable", "hipErrorECCNotCorrectable"},
    {hipErrorInvalidKernelFile, "hipErrorInvalidKernelFile", "hipErrorInvalidKernelFile"},
    {hipErrorInvalidSource, "hipErrorInvalidSource", "hipErrorInvalidSource"},
    {hipErrorFileNotFound, "hipErrorFileNotFound", "hipErrorFileNotFound"},
    {hipErrorOperatingSystem, "hipErrorOperatingSystem", "hipErrorOperatingSystem"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "hipErrorInvalidHandle"},
    {hipErrorIllegalState, "hipErrorIllegalState", "hipErrorIllegalState"},
    {hipErrorNotFound, "hipErrorNotFound", "hipErrorNotFound"},
    {hipErrorNotReady, "hipErrorNotReady", "not complete yet"},
    {hipErrorIllegalAddress, "hipErrorIllegalAddress", "hipErrorIllegalAddress"},
    {hipErrorLaunchOutOfResources, "hipErrorLaunchOutOfResources", "hipErrorLaunchOutOfResources"},
    {hipErrorLaunchTimeOut, "hipErrorLaunchTimeOut", "hipErrorLaunchTimeOut"},
    {hipErrorPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled", "hipErrorPeerAccessAlreadyEnabled"},
    {hipErrorPeerAccessNotEnabled, "hipErrorPeerAccessNotEnabled", "hipErrorPeerAccessNotEnabled"},
    {hipErrorSetOnActiveProcess, "hipErrorSetOnActiveProcess", "hipErrorSetOnActiveProcess"},
    {hipErrorContextIsDestroyed, "hipErrorContextIsDestroyed", "hipErrorContextIsDestroyed"},
    {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered", "hipErrorHostMemoryAlreadyRegistered"},
    {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered", "hipErrorHostMemoryNotRegistered"},
    {hipErrorLaunchFailure, "hipErrorLaunchFailure", "hipErrorLaunchFailure"},
    {hipErrorCooperativeLaunchTooLarge, "hipErrorCooperativeLaunchTooLarge", "hipErrorCooperativeLaunchTooLarge"},
    {hipErrorNotSupported, "hipErrorNotSupported", "not supported"},
    {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported", "hipErrorStreamCaptureUnsupported"},
    {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated", "hipErrorStreamCaptureInvalidated"},
    {hipErrorStreamCaptureMerge, "hipErrorStreamCaptureMerge", "hipErrorStreamCaptureMerge"},
    {hipErrorStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched", "hipErrorStreamCaptureUnmatched"},
    {hipErrorStreamCaptureUnjoined, "hipErrorStreamCaptureUnjoined", "hipErrorStreamCaptureUnjoined"},
    {hipErrorStreamCaptureIsolation, "hipErrorStreamCaptureIsolation", "hipErrorStreamCaptureIsolation"},
    {hipErrorStreamCaptureImplicit, "hipErrorStreamCaptureImplicit", "hipErrorStreamCaptureImplicit"},
    {hipErrorCapturedEvent, "hipErrorCapturedEvent", "hipErrorCapturedEvent"},
    {hipErrorStreamCaptureWrongThread, "hipErrorStreamCaptureWrongThread", "hipErrorStreamCaptureWrongThread"},
    {hipErrorGraphExecUpdateFailure, "hipErrorGraphExecUpdateFailure", "hipErrorGraphExecUpdateFailure"},
    {hipErrorUnknown, "hipErrorUnknown", "hipErrorUnknown"},
};

const char *hipGetErrorName(hipError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "hipErrorUnknown";
}

const char *hipGetErrorString(hipError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "hipErrorUnknown";
}

hipError_t hipDrvGetErrorName(hipError_t error, const char **text)
{
    if (!text)
        return hipErrorInvalidValue;
    *text = hipGetErrorName(error);
    return hipSuccess;
}

hipError_t hipDrvGetErrorString(hipError_t error, const char **text)
{
    if (!text)
        return hipErrorInvalidValue;
    *text = hipGetErrorString(error);
    return hipSuccess;
}
