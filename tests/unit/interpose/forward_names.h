/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a list as forward.py writes it, for the test of the jumps. */
FORWARD(0, test_absent)
FORWARD(1, test_sum)
FORWARD(2, test_same)
