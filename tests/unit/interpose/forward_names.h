/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a list of names in the form that forward.py writes, for the test of the jumps. */
FORWARD(0, test_absent)
FORWARD(1, test_sum)
FORWARD(2, test_same)
