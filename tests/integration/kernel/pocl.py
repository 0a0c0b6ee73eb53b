# SPDX-License-Identifier: Apache-2.0
"""The tests' kernels on PoCL, whose results Facet's results are compared with.

Owns: running kernels through pyopencl. Never: judges results.
"""
import warnings

import pyopencl as cl

warnings.simplefilter("ignore", cl.CompilerWarning)
NAME = "PoCL"
FLAGS = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR


class Device:
    """The first CPU that OpenCL offers."""

    def __init__(self):
        devices = [device for platform in cl.get_platforms() for device in
                   platform.get_devices(cl.device_type.CPU)]
        if not devices:
            raise LookupError("OpenCL has no device of type CPU")
        self.context = cl.Context([devices[0]])
        self.queue = cl.CommandQueue(self.context)
        self.extensions = devices[0].extensions.split()


class Program:
    def __init__(self, device, source, arguments=()):
        self.device = device
        self.program = cl.Program(device.context, source).build(options=list(arguments))

    def memory(self, argument):
        if argument.kind == "local":
            return cl.LocalMemory(argument.bytes)
        if argument.kind == "value":
            return argument.data
        if argument.kind == "sampler":
            return cl.Sampler(self.device.context, *argument.parts)
        if argument.kind == "image":
            form = cl.ImageFormat(argument.order, argument.type)
            return cl.Image(self.device.context, FLAGS, form, shape=argument.extent, hostbuf=argument.data.copy())
        return cl.Buffer(self.device.context, FLAGS, hostbuf=argument.data.copy())

    def run(self, name, range_, arguments):
        memory = [self.memory(argument) for argument in arguments]
        kernel = cl.Kernel(self.program, name)
        kernel.set_args(*memory)
        cl.enqueue_nd_range_kernel(self.device.queue, kernel, range_.size, range_.group, range_.offset).wait()
        return [self.take(argument, memory[index]) for index, argument in enumerate(arguments)]

    def take(self, argument, memory):
        if argument.kind not in ("buffer", "image") or (argument.kind == "image" and len(argument.extent) == 1):
            return None  # pyopencl copies no images of one dimension
        data = argument.data.copy()
        if argument.kind == "image":
            cl.enqueue_copy(self.device.queue, data, memory, origin=(0,) * len(argument.extent),
                            region=argument.extent)
        else:
            cl.enqueue_copy(self.device.queue, data, memory)
        return data
