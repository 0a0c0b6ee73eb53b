# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Virtual functions by the library: they are made, changed in number, kept while a process uses them, and removed.
physical=$(find_function 1b36:0010)
virtual_function_count() { cat "$devices/$physical/sriov_numvfs"; }
virtual_function_count_is() { [ "$(virtual_function_count)" = "$1" ]; }

check "nvme has its driver" wait_for has_driver "$physical" nvme
check_refusal "five virtual functions are refused: the device has four" "expected 0 to 4" \
    passthrough-virtual "$physical" 5
check "two virtual functions are made" passthrough-virtual "$physical" 2 no-probe
check "there are two" virtual_function_count_is 2
check "no driver of the host takes new ones" [ "$(cat "$devices/$physical/sriov_drivers_autoprobe")" = 0 ]
check "asking for two again changes nothing" passthrough-virtual "$physical" 2 no-probe
check "the number is raised to four" passthrough-virtual "$physical" 4
first=$(basename "$(readlink "$devices/$physical/virtfn0")")
check "the first has no driver" has_driver "$first" none

check "the first is bound to vfio-pci" bind "$first"
check_refusal "a bound virtual function is kept without evict" "$first (driven by vfio-pci)" \
    passthrough-virtual "$physical" 0
passthrough-guest hold "$first" request >/tmp/hold 2>&1 &
holder=$!
check "the first is open" wait_for grep -q holding /tmp/hold
check_refusal "an open virtual function is kept even with evict" "$first (open in process $holder)" \
    passthrough-virtual "$physical" 0 evict
check "there are four still" virtual_function_count_is 4
kill "$holder"
wait "$holder"
check "a bound virtual function that is not open is removed with evict" passthrough-virtual "$physical" 0 evict
check "the removed function is gone" is_absent "$first"
check "the host keeps the physical function" has_driver "$physical" nvme
check_refusal "a function without SR-IOV is refused" "it has no SR-IOV" \
    passthrough-virtual "$(find_function 1b36:000c)" 1
