# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A device of two functions is plugged in and unplugged while the guest runs. Its functions are edu, QEMU's educational
# device (1234:11e8). Function 0 is plugged in last, so that the guest sees both functions.
both_are_there() { [ -n "$(find_function 1234:11e8 2)" ]; }
none_is_there() { [ -z "$(find_function 1234:11e8)" ]; }
are_one_device() { [ "${1%.*}" = "${2%.*}" ] && [ "${1#*.}${2#*.}" = 01 ]; }
has_memory() { [ "$(head -n 1 "$devices/$1/resource" | cut -d ' ' -f 1)" != 0x0000000000000000 ]; }
switch_on() { echo 1 >"$devices/$1/enable"; }

check "there is no edu" none_is_there
mark attach
check "two functions appear" wait_for both_are_there
first=$(find_function 1234:11e8) second=$(find_function 1234:11e8 2)
check "they are function 0 and 1 of one device" are_one_device "$first" "$second"
check "the first has memory" wait_for has_memory "$first"
check "the second has memory" wait_for has_memory "$second"
# Switching a function on is a driver's first step, which the test outside the guest can see.
check "the first is switched on" switch_on "$first"
check "the second is switched on" switch_on "$second"
mark detach
check "both disappear together" wait_for none_is_there
mark "attach again"
check "both appear again" wait_for both_are_there
check "the first is switched on again" switch_on "$(find_function 1234:11e8)"
check "the second is switched on again" switch_on "$(find_function 1234:11e8 2)"
mark "detach again"
check "both disappear again" wait_for none_is_there
