# SPDX-License-Identifier: Apache-2.0
"""Images and samplers as arguments of a kernel, for Facet and for pyopencl.

Owns: their pixels and properties, and OpenCL's numbers for formats and sampler modes. Never: runs a kernel.
"""
import numpy

R, RG, RGBA, BGRA = 0x10B0, 0x10B2, 0x10B5, 0x10B6
HALF, FLOAT = 0x10DD, 0x10DE
NONE, TO_EDGE, CLAMP, REPEAT, MIRRORED = 0x1130, 0x1131, 0x1132, 0x1133, 0x1134
NEAREST, LINEAR = 0x1140, 0x1141


class Image:
    kind = "image"

    def __init__(self, data, order, channel_type):
        """The axes of `data` are depth, height, width (as many as the image has), and channel."""
        self.data, self.order, self.type = numpy.ascontiguousarray(data), order, channel_type
        self.extent = self.data.shape[-2::-1]

    def describe(self, kind, address):
        width, height, depth = (*self.extent, 1, 1)[:3]
        row = width * self.data.shape[-1] * self.data.itemsize
        return kind(pixels=address, width=width, height=height, depth=depth, array_size=1, row_bytes=row,
                    slice_bytes=row * height, channel_order=self.order, channel_type=self.type)


class Sampler:
    """A sampler, in the parts that pyopencl takes, and as a number made of OpenCL C's CLK_ constants."""
    kind = "sampler"
    ADDRESS = {NONE: 0, TO_EDGE: 2, CLAMP: 4, REPEAT: 6, MIRRORED: 8}

    def __init__(self, normalized, address, filter_):
        self.parts = (normalized, address, filter_)
        self.data = numpy.uint32(self.ADDRESS[address] | normalized | (0x10 if filter_ == NEAREST else 0x20))
