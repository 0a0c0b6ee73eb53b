# SPDX-License-Identifier: Apache-2.0
"""Test functions in, TAP out.

Owns: the list of tests of one file and their report. Never: knows the subjects of tests.
"""
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

_tests = []


class Skip(Exception):
    """Raised by a test that cannot run on this machine or in this build; its text is the reason."""


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
    """Runs a test; returns whether it passed, and its lines of TAP."""
    name = function.__name__.replace("_", " ")
    try:
        function()
    except Skip as skip:
        return True, f"ok {number} - {name} # SKIP {skip}"
    except Exception:  # after any failure the other tests go on
        return False, "\n# ".join([f"not ok {number} - {name}", *traceback.format_exc().splitlines()])
    return True, f"ok {number} - {name}"


def main(at_once=1):
    """Runs all tests of the file, `at_once` at a time, and exits. Only tests that share nothing may run together; it
    saves time if they mostly wait."""
    print(f"1..{len(_tests)}", flush=True)
    several = map if at_once == 1 else ThreadPoolExecutor(at_once).map
    results = []
    for passed, text in several(_run, range(1, len(_tests) + 1), _tests):
        print(text, flush=True)
        results.append(passed)
    sys.exit(0 if all(results) else 1)
