# SPDX-License-Identifier: Apache-2.0
"""How many steps a random test makes, and its seed: the counterpart of tests/effort.h for tests in Python.

Owns: reading FACET_TEST_EFFORT (percent) and FACET_TEST_SEED. Never: draws a random number itself.
"""
import os


def variable(name, usual, most):
    text = os.environ.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise SystemExit(f"{name} is '{text}': expected a number, 0 to {most}")
    return int(text)


def effort(usual, least):
    """The number of steps, at least `least`; with fewer a test would prove nothing."""
    return max(usual * variable("FACET_TEST_EFFORT", 100, 1000000) // 100, least)


def seed(usual):
    return usual + variable("FACET_TEST_SEED", 0, 2000000000)
