# SPDX-License-Identifier: Apache-2.0
"""Kernels on one of Facet's providers, `cpu` unless FACET_TEST_PROVIDER names another, through the public C API.

Owns: the structs of facet/kernel.h, facet/session.h and the two tables that a launch needs, as ctypes.
Never: hides a failure. A call that does not answer FACET_OK raises Refused with its status and message.
"""
import ctypes
import os
import tempfile
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint16, c_uint32,
                    c_uint64, c_void_p, cast, sizeof)
from pathlib import Path

import numpy

import recorded
from compiler import BUILD, CACHE_ENABLED, Compiler, Error, Missing, Refused, bind, call
from images import expect_only_known_symbols

TARGET = os.environ.get("FACET_TEST_TARGET", "host").encode()  # "host:" and an older processor is allowed, too
# With a level of 0 to 3, sources are compiled to SPIR-V at that level, and the SPIR-V is compiled for this machine.
SPIRV = os.environ.get("FACET_TEST_SPIRV")
PROVIDER = os.environ.get("FACET_TEST_PROVIDER", "cpu")
DEADLINE_NS = 60_000_000_000
IN_PROCESS = 1


class SessionOptions(Structure):
    _fields_ = [("size", c_uint32), ("place", c_uint32), ("open_deadline_ns", c_uint64), ("call_deadline_ns", c_uint64),
                ("abi_minor", c_uint16), ("reserved", c_uint16 * 3)]


class Range(Structure):
    _fields_ = [("size", c_uint32), ("dimensions", c_uint32), ("global_", c_uint64 * 3), ("group", c_uint32 * 3),
                ("offset", c_uint32 * 3)]


class StreamState(Structure):
    _fields_ = [("size", c_uint32), ("failed", c_uint32), ("launched", c_uint64), ("completed", c_uint64),
                ("busy_ns", c_uint64)]


class Argument(Structure):
    _fields_ = [("name", c_char_p), ("type", c_char_p), ("kind", c_uint32), ("offset", c_uint32), ("bytes", c_uint32),
                ("access", c_uint32)]


class HostKernel(Structure):
    _fields_ = [("name", c_char_p), ("run", c_void_p), ("arguments", POINTER(Argument)), ("argument_count", c_uint32),
                ("argument_bytes", c_uint32), ("local_bytes", c_uint32), ("scratch_fixed_bytes", c_uint32),
                ("scratch_item_bytes", c_uint32), ("required_group_size", c_uint32 * 3), ("flags", c_uint32),
                ("reserved", c_uint32)]


class ImageObject(Structure):
    _fields_ = [("pixels", c_uint64), ("width", c_uint32), ("height", c_uint32), ("depth", c_uint32),
                ("array_size", c_uint32), ("row_bytes", c_uint32), ("slice_bytes", c_uint32),
                ("channel_order", c_uint32), ("channel_type", c_uint32)]


UNUSED = c_void_p  # an operation that these tests do not call


class MemoryOps(Structure):
    _fields_ = [("size", c_uint64),
                ("create_context", CFUNCTYPE(c_int, c_void_p, c_uint32, c_char_p, c_char_p, POINTER(c_uint64),
                                             POINTER(Error))),
                ("destroy_context", CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(Error))),
                ("info", UNUSED),
                ("alloc", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(c_uint64), POINTER(Error))),
                ("free", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(Error))),
                ("reserve", UNUSED), ("release", UNUSED), ("create_pages", UNUSED), ("destroy_pages", UNUSED),
                ("map", UNUSED), ("unmap", UNUSED),
                ("write", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, c_void_p, c_uint64, POINTER(Error))),
                ("read", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, c_uint64, c_void_p, POINTER(Error)))]


class ExecutionOps(Structure):
    _fields_ = [("size", c_uint64), ("load", UNUSED), ("unload", UNUSED),
                ("create_stream", CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(Error))),
                ("destroy_stream", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(Error))),
                ("launch", UNUSED),
                ("synchronize", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, c_uint64, POINTER(Error))),
                ("query", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64, POINTER(StreamState), POINTER(Error)))]


class Provider(Structure):
    _fields_ = [("size", c_uint32), ("abi_major", c_uint16), ("abi_minor", c_uint16), ("name", c_char_p),
                ("version", c_char_p), ("description", c_char_p), ("traits", c_uint64), ("device", c_void_p),
                ("partition", c_void_p), ("limit", c_void_p), ("metrics", c_void_p), ("container", c_void_p),
                ("snapshot", c_void_p), ("memory", POINTER(MemoryOps)), ("execution", POINTER(ExecutionOps))]


class Device(Compiler):
    """A session with the provider, a context and a stream of its first device, and a compiler with a cache of its own."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="facet-oracle-")
        os.environ["FACET_CACHE_DIR"] = self.temporary.name
        self.provider_file = BUILD / f"facet-provider-{PROVIDER}.so"
        for file in (BUILD / "libfacet.so", self.provider_file, BUILD / "facet-kernel-compiler.so"):
            if not file.exists() and not (recorded.REPLAY and "compiler" in file.name):
                raise Missing(f"{file.name} was not built")
        if b"x86-64-v3" in TARGET and " avx2 " not in Path("/proc/cpuinfo").read_text():
            raise Missing(f"this processor has no AVX2, which images for {TARGET.decode()} need")
        super().__init__(CACHE_ENABLED)
        library, error = self.library, POINTER(Error)
        self.open = bind(library, "facet_session_open", c_int, c_char_p, POINTER(SessionOptions), POINTER(c_void_p),
                         error)
        self.get_provider = bind(library, "facet_session_provider", POINTER(Provider), c_void_p)
        self.get_instance = bind(library, "facet_session_instance", c_void_p, c_void_p)
        self.parse = bind(library, "facet_image_parse", c_int, c_char_p, c_size_t, POINTER(c_void_p), error)
        self.find = bind(library, "facet_image_find", POINTER(HostKernel), c_void_p, c_char_p)
        self.load = bind(library, "facet_kernel_load", c_int, c_void_p, c_uint64, c_void_p, c_char_p, POINTER(c_void_p),
                         error)
        self.destroy = bind(library, "facet_kernel_destroy", None, c_void_p)
        self.set_value = bind(library, "facet_kernel_set_value", c_int, c_void_p, c_uint32, c_void_p, c_size_t, error)
        self.set_memory = bind(library, "facet_kernel_set_memory", c_int, c_void_p, c_uint32, c_uint64, error)
        self.set_local = bind(library, "facet_kernel_set_local", c_int, c_void_p, c_uint32, c_uint32, error)
        self.launch = bind(library, "facet_kernel_launch", c_int, c_void_p, c_uint64, POINTER(Range), error)
        self.start()

    def start(self):
        self.session = c_void_p()
        self.context, self.stream = c_uint64(), c_uint64()
        options = SessionOptions(size=sizeof(SessionOptions), place=IN_PROCESS)
        call(self.open, str(self.provider_file).encode(), byref(options), byref(self.session))
        provider = self.get_provider(self.session).contents
        self.instance = self.get_instance(self.session)
        self.memory, self.execution = provider.memory.contents, provider.execution.contents
        call(self.memory.create_context, self.instance, 0, None, b"oracle", byref(self.context))
        call(self.execution.create_stream, self.instance, self.context, byref(self.stream))

    def alloc(self, data):
        """Allocates memory, copies `data` into it, and returns its address."""
        address = c_uint64()
        call(self.memory.alloc, self.instance, self.context, max(len(data), 1), byref(address))
        if data:
            call(self.memory.write, self.instance, self.context, address, data, len(data))
        return address.value

    def read(self, address, count):
        data = ctypes.create_string_buffer(count)
        call(self.memory.read, self.instance, self.context, address, count, cast(data, c_void_p))
        return data.raw

    def free(self, address):
        call(self.memory.free, self.instance, self.context, address)

    def build(self, source, arguments, spirv=SPIRV):
        """Returns an image of the source for this machine. If `spirv` is a level, the image is made of the SPIR-V
        module that the source gives at that level."""
        source = source.encode()
        if recorded.REPLAY:
            return self.replayed(source, arguments)
        if spirv is not None:
            module = self.image_of(source, arguments, target=b"spirv:1.2", optimize=int(spirv) + 1)
            source, arguments = self.bytes_of(module), []
        image = self.image_of(source, arguments, target=TARGET)
        if TARGET != b"host":
            self.check_symbols(image)
        if recorded.RECORD:
            self.record(source, arguments)
        return image

    def check_symbols(self, image):
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.bytes_of(image))
            file.flush()
            expect_only_known_symbols(file.name, TARGET.decode())

    def record(self, source, arguments):
        name = recorded.name_of_source(source, arguments)
        try:
            image = self.image_of(source, arguments, target=recorded.RECORD_TARGET)
        except Refused as refusal:
            recorded.keep_refusal(name, refusal.message)
            return
        recorded.keep_image(name, self.bytes_of(image))

    def replayed(self, source, arguments):
        image, data = c_void_p(), recorded.image_of(recorded.name_of_source(source, arguments))
        call(self.parse, data, len(data), byref(image))
        return image

    def wait(self):
        state = StreamState(size=sizeof(StreamState))
        call(self.execution.synchronize, self.instance, self.context, self.stream, DEADLINE_NS)
        call(self.execution.query, self.instance, self.context, self.stream, byref(state))
        if state.failed:
            raise Refused("launch", -state.failed, "the stream has failed")


class Program:
    """A source compiled for the device."""

    def __init__(self, device, source, arguments=(), spirv=SPIRV):
        self.device, self.image = device, device.build(source, arguments, spirv)
        self.name = recorded.name_of_source(source.encode(), arguments)

    def bind(self, kernel, index, argument):
        device = self.device
        if argument.kind == "local":
            call(device.set_local, kernel, index, argument.bytes)
        elif argument.kind in ("value", "sampler"):
            data = argument.data.tobytes()
            call(device.set_value, kernel, index, data, len(data))
        elif argument.kind == "image":
            argument.address = device.alloc(argument.data.tobytes())
            argument.object = device.alloc(bytes(argument.describe(ImageObject, argument.address)))
            call(device.set_memory, kernel, index, argument.object)
        else:
            argument.address = device.alloc(argument.data.tobytes())
            call(device.set_memory, kernel, index, argument.address)

    def run(self, name, range_, arguments):
        """Runs the kernel once; returns each argument's memory afterwards, or None if it has none."""
        device, kernel = self.device, c_void_p()
        run_name = recorded.RECORD and recorded.name_of_run(self.name, name, range_, arguments)
        call(device.load, device.session, device.context, self.image, name.encode(), byref(kernel))
        try:
            for index, argument in enumerate(arguments):
                self.bind(kernel, index, argument)
            extent = Range(size=sizeof(Range), dimensions=len(range_.size), global_=tuple(range_.size),
                           group=tuple(range_.group or (0, 0, 0)), offset=tuple(range_.offset or (0, 0, 0)))
            call(device.launch, kernel, device.stream, byref(extent))
            device.wait()
            answers = [self.take(argument) for argument in arguments]
            if run_name:
                recorded.keep_answer(run_name, answers)
            return answers
        finally:
            device.destroy(kernel)

    def take(self, argument):
        if not hasattr(argument, "address"):
            return None
        data = self.device.read(argument.address, argument.data.nbytes)
        for address in (argument.address, getattr(argument, "object", None)):
            if address is not None:
                self.device.free(address)
        del argument.address
        return numpy.frombuffer(data, argument.data.dtype).reshape(argument.data.shape)
