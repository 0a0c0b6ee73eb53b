# SPDX-License-Identifier: Apache-2.0
"""Resource files: Backend.AI's (resource.txt) and Facet's, read and written by the C library.

Owns: the records of a file as named tuples. Never: parses a file itself.
"""
import ctypes
from ctypes import byref, c_size_t, c_void_p
from typing import NamedTuple

from . import library as lib

OWNER, HANDLE, SCRATCH, REQUEST, ALLOCATION, GRANT, UNIFIED, MOUNT, DATA = range(9)
TYPES = {"count": 0, "bytes": 1, "unique": 2, "unified": 3}
UNKNOWN_TYPE = 0xffffffff


class Record(NamedTuple):
    kind: int
    text: tuple = ()
    number: int = 0  # bytes, micro-units or a permission, by kind
    places: int = 0  # the least number of decimals with which resource.txt shows the number


def _type_function(slot_types):
    known = {str(slot): TYPES[str(getattr(kind, "value", kind))] for slot, kind in slot_types.items()}

    def type_of(_, slot):
        return known.get(slot.decode(errors="replace"), UNKNOWN_TYPE)
    return lib.SLOT_TYPE_FUNC(type_of)


class _Resources:
    def __init__(self):
        self.library, self.pointer = lib.load(), c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.resources_destroy(self.pointer)

    def fill(self, records):
        self.library.call("resources_create", byref(self.pointer))
        for record in records:
            texts = [lib.encode(text, "text") for text in record.text]
            entry = lib.ResourcesRecord(size=ctypes.sizeof(lib.ResourcesRecord), kind=record.kind,
                                        places=record.places, number=record.number)
            for index, text in enumerate(texts):
                entry.text[index] = text
            self.library.call("resources_add", self.pointer, byref(entry))

    def records(self):
        found = []
        for index in range(self.library.resources_count(self.pointer)):
            entry = lib.ResourcesRecord(size=ctypes.sizeof(lib.ResourcesRecord))
            self.library.call("resources_get", self.pointer, index, byref(entry))
            texts = tuple(text.decode("utf-8", "surrogateescape") for text in entry.text if text is not None)
            found.append(Record(entry.kind, texts, entry.number, entry.places))
        return found


def parse_legacy(text, slot_types):
    """The records of a resource.txt. `slot_types`: slot -> a SlotTypes or its value, such as "count"."""
    raw, function = text.encode("utf-8", "surrogateescape"), _type_function(slot_types)
    with _Resources() as resources:
        resources.library.call("resources_parse_legacy", raw, len(raw), function, None, byref(resources.pointer))
        return resources.records()


def format_legacy(records, slot_types):
    """The text of a resource.txt from which parse_legacy() reads these records; FacetError if no text can hold them."""
    function = _type_function(slot_types)
    with _Resources() as resources:
        resources.fill(records)
        return resources.library.text("resources_format_legacy", resources.pointer, function,
                                      None).decode("utf-8", "surrogateescape")


def parse(raw):
    """The records of a file in Facet's own format; FacetError (corrupt) names the damaged line."""
    with _Resources() as resources:
        resources.library.call("resources_parse", raw, len(raw), byref(resources.pointer))
        return resources.records()


def format_own(records):
    with _Resources() as resources:
        resources.fill(records)
        return resources.library.text("resources_format", resources.pointer, size=c_size_t())


def allocations(records):
    """The granted amounts as {slot: {device: Decimal}}."""
    found = {}
    for record in records:
        if record.kind == ALLOCATION:
            found.setdefault(record.text[0], {})
        elif record.kind == GRANT:
            found.setdefault(record.text[0], {})[record.text[1]] = lib.from_micro(record.number)
    return found
