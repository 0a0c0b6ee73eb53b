# SPDX-License-Identifier: Apache-2.0
"""Images and answers of the tests' kernels that were recorded on another machine.

A machine with a GPU need not have the compiler. With FACET_TEST_RECORD=FOLDER, kernels run on this machine, and each
source's image for FACET_TEST_RECORD_TARGET and each run's answer are stored in the folder. With
FACET_TEST_REPLAY=FOLDER, kernels run on FACET_TEST_PROVIDER from those images, and this module takes PoCL's place: it
gives the stored answers.

Owns: the folder's files: images, named by a hash of source and arguments, and answers, named by a hash of a run.
Never: compiles or runs a kernel.
"""
import hashlib
import os
import sys
import zlib
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))

import tap  # noqa: E402

NAME = "the recording machine"
RECORD = os.environ.get("FACET_TEST_RECORD")
REPLAY = os.environ.get("FACET_TEST_REPLAY")
RECORD_TARGET = os.environ.get("FACET_TEST_RECORD_TARGET", "ptx:sm_75").encode()
SEPARATOR = b"\0;"
MOST_BYTES = 1 << 20  # the largest compressed answer that is stored


def hash_of(*parts):
    """A name that is a hash of the parts, which are bytes."""
    return hashlib.sha256(SEPARATOR.join(parts)).hexdigest()[:32]


def name_of_source(source, arguments):
    return hash_of(source, *(text.encode() for text in arguments))


def name_of_run(source, kernel, range_, arguments):
    extents = repr((range_.size, range_.group, range_.offset)).encode()
    given = [str(argument.bytes).encode() if argument.kind == "local" else argument.data.tobytes()
             for argument in arguments]
    return hash_of(source.encode(), kernel.encode(), extents, *given)


# --- recording ---

def keep_image(name, image):
    Path(RECORD, f"{name}.image").write_bytes(zlib.compress(image))


def keep_refusal(name, text):
    Path(RECORD, f"{name}.refusal").write_text(text)


def keep_answer(name, answers):
    """Stores `answers`: each argument's memory after the run, or None if it has none."""
    data = zlib.compress(b"".join(answer.tobytes() for answer in answers if answer is not None))
    if len(data) <= MOST_BYTES:
        Path(RECORD, f"{name}.answer").write_bytes(data)


# --- replaying ---

def image_of(name):
    refusal, image = Path(REPLAY, f"{name}.refusal"), Path(REPLAY, f"{name}.image")
    if refusal.exists():
        raise tap.Skip(f"the target refuses it: {refusal.read_text().splitlines()[0]}")
    if not image.exists():
        raise tap.Skip("the recording has no image of this source")
    return zlib.decompress(image.read_bytes())


class Device:
    extensions = ("cl_khr_int64_base_atomics",)


class Program:
    """A source whose runs were stored."""

    def __init__(self, device, source, arguments=()):
        self.device, self.name = device, name_of_source(source.encode(), arguments)

    def run(self, kernel, range_, arguments):
        """The stored answer; None if it was not stored."""
        file = Path(REPLAY, f"{name_of_run(self.name, kernel, range_, arguments)}.answer")
        if not file.exists():
            return None
        data, answers, at = zlib.decompress(file.read_bytes()), [], 0
        for argument in arguments:
            if argument.kind != "buffer":
                answers.append(None)
                continue
            bytes_ = data[at:at + argument.data.nbytes]
            answers.append(numpy.frombuffer(bytes_, argument.data.dtype).reshape(argument.data.shape))
            at += argument.data.nbytes
        return answers
