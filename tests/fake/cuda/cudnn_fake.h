/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the declarations that the files of the fake cuDNN share. Never: is included by programs that use cuDNN. */
#ifndef FAKE_CUDA_CUDNN_FAKE_H
#define FAKE_CUDA_CUDNN_FAKE_H

#include "math_fake.h"
#include "vendor/cuda/cudnn.h"

/* Make and free an object; the live ones are counted. */
void *fake_cudnn_make(size_t size);
cudnnStatus_t fake_cudnn_drop(void *object);
enum fake_type fake_cudnn_type(cudnnDataType_t type);

#endif
