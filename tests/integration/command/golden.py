# SPDX-License-Identifier: Apache-2.0
"""Texts that are compared with a file in tests/golden; FACET_UPDATE_GOLDEN=1 writes them anew."""
import difflib
import os

from place import SOURCE

FOLDER = os.path.join(SOURCE, "tests", "golden")


def matches_golden(name, text):
    path = os.path.join(FOLDER, name)
    if os.environ.get("FACET_UPDATE_GOLDEN") == "1":
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    if text != expected:
        difference = difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "got", lineterm="")
        raise AssertionError(f"tests/golden/{name} differs:\n" + "\n".join(difference))
