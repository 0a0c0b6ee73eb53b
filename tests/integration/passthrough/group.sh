# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A group is passed through as a whole: no function of it can be opened while the host drives one of them.
edu=$(find_function 1234:11e8)
nvme=$(find_function 1b36:0010)
check "edu and nvme are in one group" [ "$(group_of "$edu")" = "$(group_of "$nvme")" ]
check "nvme has its driver" wait_for has_driver "$nvme" nvme
check "edu alone is bound to vfio-pci" bind "$edu"
check_refusal "the group is not viable, and the function with a host driver is named" \
    "the host still drives $nvme (nvme); bind the whole group" passthrough-guest open "$edu"
check "nvme is bound as well" bind "$nvme"
check "now edu is opened" passthrough-guest open "$edu"
check "now nvme is opened" passthrough-guest open "$nvme"
passthrough-guest hold "$nvme" request >/tmp/hold &
holder=$!
wait_for grep -q holding /tmp/hold
check_refusal "while another process has nvme open, the group is busy" "process $holder (passthrough-gue) has it open" \
    passthrough-guest open "$edu"
kill "$holder"
wait "$holder" 2>/dev/null
check "nvme is given back" give_back "$nvme" nvme
check_refusal "nvme's driver makes the group not viable again" "the host still drives $nvme (nvme)" \
    passthrough-guest open "$edu"
check "edu is given back, to no driver" give_back "$edu" none

behind=$(find_function 1234:11e8 2)
other=$(find_function 1b36:0005)
check "functions behind a conventional PCI bridge share a group" [ "$(group_of "$behind")" = "$(group_of "$other")" ]
check "the edu among them is bound to vfio-pci" bind "$behind"
check "a neighbour without a driver does not keep edu from being opened" passthrough-guest open "$behind"
check_refusal "a neighbour without a driver cannot be opened" "this function has no driver, not vfio-pci" \
    passthrough-guest open "$other"
check "the neighbour is bound as well" bind "$other"
run_checks neighbours passthrough-guest bus "$behind" "$other"
