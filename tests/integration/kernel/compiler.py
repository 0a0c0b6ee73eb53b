# SPDX-License-Identifier: Apache-2.0
"""The kernel compiler, through the public C API, in this process: a process for each source would load LLVM each time.

Owns: the structs of facet/kernel.h that a compile needs, as ctypes.
Never: hides a failure. A call that does not answer FACET_OK raises Refused with its status and message.
"""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p, cast, sizeof
from pathlib import Path

BUILD = Path(os.environ.get("FACET_BUILD_DIR", Path(__file__).resolve().parents[3] / "build")).resolve()
CACHE_ENABLED, CACHE_BYPASSED = 0, 3


class Refused(Exception):
    """A call's status and message."""

    def __init__(self, call, status, message):
        super().__init__(f"{call}: {message} ({status})")
        self.status, self.message = status, message


class Missing(Exception):
    """This build cannot compile or run kernels; the text names the missing part."""


class Error(Structure):
    _fields_ = [("status", c_int), ("argument", c_char * 32), ("message", c_char * 360)]


class CompilerOptions(Structure):
    _fields_ = [("size", c_uint32), ("cache_mode", c_uint32), ("cache_dir", c_char_p), ("cache_bytes", c_uint64)]


class CompileOptions(Structure):
    _fields_ = [("size", c_uint32), ("source", c_uint32), ("optimize", c_uint32), ("check", c_uint32),
                ("target", c_char_p), ("name", c_char_p), ("arguments", POINTER(c_char_p))]


def bind(library, name, answer, *arguments):
    try:
        function = getattr(library, name)
    except AttributeError:
        raise Missing(f"libfacet.so has no {name}") from None
    function.restype, function.argtypes = answer, arguments
    return function


def call(function, *arguments):
    error = Error()
    status = function(*arguments, byref(error))
    if status != 0:
        raise Refused(getattr(function, "__name__", "operation"), status, error.message.decode(errors="replace"))


class Diagnostic(Structure):
    _fields_ = [("severity", c_uint32), ("line", c_uint32), ("column", c_uint32), ("file", c_char_p), ("text", c_char_p)]


class Compiler:
    def __init__(self, cache_mode=CACHE_BYPASSED):
        os.environ["FACET_LIB_DIR"] = str(BUILD)
        self.library, self.compiler = ctypes.CDLL(str(BUILD / "libfacet.so")), c_void_p()
        create = bind(self.library, "facet_compiler_create", c_int, POINTER(CompilerOptions), POINTER(c_void_p),
                      POINTER(Error))
        self.compile = bind(self.library, "facet_compile", c_int, c_void_p, c_char_p, c_size_t, POINTER(CompileOptions),
                            POINTER(c_void_p), POINTER(Error))
        self.get_bytes = bind(self.library, "facet_image_bytes", c_void_p, c_void_p, POINTER(c_size_t))
        self.get_diagnostic = bind(self.library, "facet_image_diagnostic", c_int, c_void_p, c_uint32, POINTER(Diagnostic))
        self.destroy_image = bind(self.library, "facet_image_destroy", None, c_void_p)
        call(create, byref(CompilerOptions(size=sizeof(CompilerOptions), cache_mode=cache_mode)), byref(self.compiler))

    def image_of(self, source, arguments, name=b"oracle.cl", **options):
        image = c_void_p()
        listed = (c_char_p * (len(arguments) + 1))(*[text.encode() for text in arguments], None)
        options = CompileOptions(size=sizeof(CompileOptions), name=name, arguments=cast(listed, POINTER(c_char_p)),
                                 **options)
        call(self.compile, self.compiler, source, len(source), byref(options), byref(image))
        return image

    def bytes_of(self, image):
        size = c_size_t()
        return ctypes.string_at(self.get_bytes(image, byref(size)), size.value)

    def compile_quietly(self, source, target, level, name):
        """The bytes of the image of a source that gives no remark."""
        image = self.image_of(source, [], name.encode(), target=target.encode(), optimize=level + 1)
        remark = Diagnostic()
        if self.get_diagnostic(image, 0, byref(remark)):
            raise AssertionError(f"{name}:{remark.line}: {remark.text.decode()}")
        image_bytes = self.bytes_of(image)
        self.destroy_image(image)
        return image_bytes
