# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A function makes virtual functions, which are passed through while the host keeps the physical one.
physical=$(find_function 1b36:0010)
check "nvme has its driver" wait_for has_driver "$physical" nvme
check "nvme can have four virtual functions" [ "$(cat "$devices/$physical/sriov_totalvfs")" = 4 ]
# The virtual functions are passed through, so the host's driver need not probe them.
echo 0 >"$devices/$physical/sriov_drivers_autoprobe"
check "two virtual functions are made" sh -c "echo 2 >$devices/$physical/sriov_numvfs"
first=$(basename "$(readlink "$devices/$physical/virtfn0")")
second=$(basename "$(readlink "$devices/$physical/virtfn1")")
check "both are functions of their own" [ -e "$devices/$first" -a -e "$devices/$second" -a "$first" != "$second" ]
check "each is in a group of its own" [ "$(group_of "$first")" != "$(group_of "$second")" ]

check "the first is bound to vfio-pci" bind "$first"
run_checks first passthrough-guest config "$first"
run_checks first passthrough-guest reset "$first"
check_refusal "the second, which is not bound, is not opened" "has no driver, not vfio-pci" passthrough-guest open "$second"
check "the host keeps the physical function" has_driver "$physical" nvme
check "the host keeps its disk" ls -d /sys/block/nvme0n1

check "the first is given back, to no driver" give_back "$first" none

# ---- by the command ----
export FACET_STATE_DIR=/tmp/state FACET_RUNTIME_DIR=/tmp/run
check_refusal "the physical function is not bound while it has virtual functions" "has 2 virtual functions" \
    facet pci bind "$physical"
check "both are bound by the command" facet pci bind --reset "$first" "$second"
check "the first is opened" passthrough-guest open "$first"
check "both are given back" facet pci unbind "$second"
check "the first has no driver again" has_driver "$first" none
check "the first is bound once more" facet pci bind "$first"
check "the virtual functions are removed" sh -c "echo 0 >$devices/$physical/sriov_numvfs"
check "the first is gone" is_absent "$first"
check "recovery reports the bound function as gone" sh -c "facet pci recover | tee /dev/stderr | grep -q '^gone $first'"
