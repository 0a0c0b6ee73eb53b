# SPDX-License-Identifier: Apache-2.0
"""Test functions in, TAP out.

Owns: the list of tests of one file and their report. Never: knows what is tested.
"""
import sys
import traceback

_tests = []


class Skip(Exception):
    """Raised by a test that cannot be made here; says why."""


def test(function):
    _tests.append(function)
    return function


def equal(got, expected, what="value"):
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")


def contains(text, fragment):
    if fragment not in text:
        raise AssertionError(f"{fragment!r} is not in {text!r}")


def _run(number, function):
    name = function.__name__.replace("_", " ")
    try:
        function()
    except Skip as skip:
        print(f"ok {number} - {name} # SKIP {skip}")
        return True
    except Exception:  # whatever went wrong, the other tests go on
        print(f"not ok {number} - {name}")
        for line in traceback.format_exc().splitlines():
            print(f"# {line}")
        return False
    print(f"ok {number} - {name}")
    return True


def main():
    print(f"1..{len(_tests)}", flush=True)
    results = []
    for number, function in enumerate(_tests, 1):
        results.append(_run(number, function))
        sys.stdout.flush()
    sys.exit(0 if all(results) else 1)
