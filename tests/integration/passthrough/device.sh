# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Single functions are bound, opened, read and mapped; they raise interrupts and move memory; they are reset and given
# back.
edu=$(find_function 1234:11e8)
nvme=$(find_function 1b36:0010)
behind_port=$(find_function 1234:11e8 2) # behind a port of its own

check "the command runs in the VM" facet version
check_refusal "a function without vfio-pci is not opened, and its driver is named" "has no driver, not vfio-pci" \
    passthrough-guest open "$edu"
check_refusal "a missing function is refused" "no such PCI function" passthrough-guest open 0000:3f:1f.7
check_refusal "a text that is no address is refused" "no address of a PCI function" passthrough-guest open ../../../etc
check "edu is bound to vfio-pci" bind "$edu"
check "edu is opened by its group" passthrough-guest open "$edu"
run_checks edu passthrough-guest config "$edu"
run_checks edu passthrough-guest edu "$edu"
check "the IOMMU reports a write to an unmapped address" \
    sh -c 'dmesg | grep "DMAR:.*DMA Write.*fault addr 0x100001000"'
echo 16 >/sys/module/vfio_iommu_type1/parameters/dma_entry_limit
run_checks memory passthrough-guest memory "$edu"
echo 65535 >/sys/module/vfio_iommu_type1/parameters/dma_entry_limit
run_checks memlock passthrough-guest memlock "$edu"
run_checks edu passthrough-guest reset "$edu"

check "a second edu, behind a port, is bound" bind "$behind_port"
run_checks "edu behind a port" passthrough-guest reset "$behind_port"

check "nvme has its driver" wait_for has_driver "$nvme" nvme
check "nvme is bound to vfio-pci" bind "$nvme"
run_checks nvme passthrough-guest config "$nvme"
run_checks nvme passthrough-guest reset "$nvme"
run_checks together passthrough-guest share "$edu" "$nvme"

passthrough-guest hold "$edu" request >/tmp/hold &
holder=$!
wait_for grep -q holding /tmp/hold
check_refusal "the process that has the group open is named" "process $holder (passthrough-gue) has it open" \
    passthrough-guest open "$edu"
kill "$holder"
wait "$holder" 2>/dev/null

if [ -e /dev/iommu ]; then
    echo "ok - the error names iommufd where it is missing # SKIP this kernel has iommufd"
else
    check_refusal "the error names iommufd where it is missing" "/dev/iommu is not there" \
        with_way cdev passthrough-guest open "$edu"
fi

check "edu is given back, to no driver" give_back "$edu" none
check "nvme is given back to its driver" give_back "$nvme" nvme
check "the driver finds its disk again" wait_for ls -d /sys/block/nvme0n1
