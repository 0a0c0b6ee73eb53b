# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A function is given to a virtual machine that runs inside this one.
edu=$(find_function 1234:11e8)

# The options that give QEMU a function.
options_for() { echo "-device vfio-pci,host=$1"; }

run_inner_machine() {
    # shellcheck disable=SC2046  # these are words
    timeout "$1" qemu-system-x86_64 -accel tcg -machine q35 -cpu qemu64 -m 32 -nodefaults \
        -no-user-config -display none -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4 \
        -serial stdio -kernel /inner $(options_for "$2") 2>&1
}

run_inner_machine 20 "$edu" >/tmp/early
check_refusal "QEMU takes no function that is not bound" "vfio 0000:00:04.0" sh -c "cat /tmp/early; false"
check "edu is bound to vfio-pci" bind "$edu"
run_checks nested run_inner_machine 90 "$edu"
check "no fault was reported" sh -c '! dmesg | grep "DMAR:.*fault"'
check "after QEMU has ended, edu is free again" passthrough-guest open "$edu"
check "edu is given back, to no driver" give_back "$edu" none
