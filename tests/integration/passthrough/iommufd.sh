# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Functions are opened by iommufd and their own character devices, if the kernel has them.
edu=$(find_function 1234:11e8)
nvme=$(find_function 1b36:0010)
wait_for has_driver "$nvme" nvme
bind "$edu"
if [ ! -e /dev/iommu ] || [ ! -d /dev/vfio/devices ]; then
    echo "@skip kernel $(uname -r) has no character devices of VFIO"
    exit 0
fi
export WAY=cdev

check "edu is opened by its character device" passthrough-guest open "$edu"
check "the client chooses the character device by itself" sh -c "unset WAY; passthrough-guest open $edu | grep 'group -1'"
check_refusal "a function with another driver is not opened" "it has the driver nvme, not vfio-pci" \
    passthrough-guest open "$nvme"
run_checks edu passthrough-guest config "$edu"
run_checks edu passthrough-guest edu "$edu"
check "the IOMMU reports a write to an unmapped address" \
    sh -c 'dmesg | grep "DMAR:.*DMA Write.*fault addr 0x100001000"'
run_checks memory passthrough-guest memory "$edu"
run_checks memlock passthrough-guest memlock "$edu"
check "nvme is bound to vfio-pci" bind "$nvme"
run_checks nvme passthrough-guest reset "$nvme"
run_checks together passthrough-guest share "$edu" "$nvme"

passthrough-guest hold "$edu" request >/tmp/hold &
holder=$!
wait_for grep -q holding /tmp/hold
check_refusal "an open function is not opened again" "joining iommufd: process $holder (passthrough-gue) has it open" \
    passthrough-guest open "$edu"
check_refusal "its group is not opened either, and the process that has it is named" "process $holder (passthrough-gue) has it open" \
    with_way group passthrough-guest open "$edu"
kill "$holder"
wait "$holder" 2>/dev/null
check "once closed, the function is opened by its group" with_way group passthrough-guest open "$edu"
check "edu is given back, to no driver" give_back "$edu" none
check "nvme is given back to its driver" give_back "$nvme" nvme

beside=$(find_function 1234:11e8 2)
check "an edu in nvme's group is bound" bind "$beside"
check_refusal "nvme's driver keeps its group from being opened" "the host still drives $nvme (nvme)" \
    passthrough-guest open "$beside"
check "the edu in nvme's group is given back, to no driver" give_back "$beside" none

behind=$(find_function 1234:11e8 3)
other=$(find_function 1b36:0005)
check "an edu behind a bridge is bound" bind "$behind"
check "its neighbour is bound" bind "$other"
run_checks neighbours passthrough-guest bus "$behind" "$other"
