# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# `facet pci attach` and `detach` with a real function behind VFIO and a real QEMU. QEMU's guest is not started (-S), which
# saves time. A guest that does not run gives a function back only at a reset, so the test requests one.
edu=$(find_function 1234:11e8)
# shellcheck disable=SC2010  # names of descriptors are numbers
qemu_has_edu_open() { ls -l "/proc/$qemu/fd" | grep -q -- "-> /dev/vfio/$(group_of "$edu")\$"; }
qemu_has_edu_closed() { ! qemu_has_edu_open; }
send_to_qemu() { echo "{\"execute\":\"$1\"}" >/tmp/control.in; }
process_has_ended() { [ ! -d "/proc/$1" ] || grep -q "^State:.*zombie" "/proc/$1/status"; }

mkfifo /tmp/control.in /tmp/control.out
qemu-system-x86_64 -S -accel tcg -machine q35 -cpu qemu64 -m 32 -nodefaults -no-user-config -display none \
    -device pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1 -qmp unix:/tmp/qmp,server=on,wait=off \
    -qmp pipe:/tmp/control >/tmp/qemu 2>&1 &
qemu=$!
cat /tmp/control.out >/tmp/said &
check "QEMU serves QMP" wait_for [ -S /tmp/qmp ]
check_refusal "a function that is not bound is not attached" "'$edu' has no driver" \
    facet pci attach --qmp /tmp/qmp "$edu"
check "edu is bound to vfio-pci" bind "$edu"
check "edu is attached" facet pci attach --qmp /tmp/qmp --timeout 60 "$edu"
check "QEMU has it open" qemu_has_edu_open
check_refusal "edu is not attached twice" "is in the VM already" facet pci attach --qmp /tmp/qmp --timeout 60 "$edu"
check_refusal "a guest that does not run gives nothing back" "the VM is 'prelaunch'" \
    facet pci detach --qmp /tmp/qmp --timeout 3 "$edu"
check "QEMU still has it open" qemu_has_edu_open
facet pci detach --qmp /tmp/qmp --timeout 90 "$edu" >/tmp/detached 2>&1 &
detach=$!
sleep 3
send_to_qemu qmp_capabilities
send_to_qemu system_reset
check "the detach ends" wait_for process_has_ended "$detach"
check "the detach reports that edu is out of the VM" grep -x "$edu: out of the VM" /tmp/detached
check "QEMU has closed it" qemu_has_edu_closed
check "edu is given back, to no driver" give_back "$edu" none
kill "$qemu"
wait "$qemu" || true
