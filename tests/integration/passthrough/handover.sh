# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# facet pci attach and detach with a real function behind VFIO and a real QEMU. QEMU is not started yet (-S), so that its
# guest needs no time. A guest that does nothing gives the function back at a reset, so the test asks for one.
edu=$(find_function 1234:11e8)
# shellcheck disable=SC2010  # names of descriptors are numbers
qemu_has_it() { ls -l "/proc/$qemu/fd" | grep -q -- "-> /dev/vfio/$(group_of "$edu")\$"; }
qemu_has_it_not() { ! qemu_has_it; }
tell() { echo "{\"execute\":\"$1\"}" >/tmp/control.in; }
has_ended() { [ ! -d "/proc/$1" ] || grep -q "^State:.*zombie" "/proc/$1/status"; }

mkfifo /tmp/control.in /tmp/control.out
qemu-system-x86_64 -S -accel tcg -machine q35 -cpu qemu64 -m 32 -nodefaults -no-user-config -display none \
    -device pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1 -qmp unix:/tmp/qmp,server=on,wait=off \
    -qmp pipe:/tmp/control >/tmp/qemu 2>&1 &
qemu=$!
cat /tmp/control.out >/tmp/said &
check "QEMU serves QMP" wait_for [ -S /tmp/qmp ]
refuses "a function that is not bound is not attached" "'$edu' has no driver" \
    facet pci attach --qmp /tmp/qmp "$edu"
check "edu is bound to vfio-pci" bind "$edu"
check "edu is attached" facet pci attach --qmp /tmp/qmp --timeout 60 "$edu"
check "QEMU has it open" qemu_has_it
refuses "edu is not attached twice" "is in the VM already" facet pci attach --qmp /tmp/qmp --timeout 60 "$edu"
refuses "a guest that does not run gives nothing back" "the VM is 'prelaunch'" \
    facet pci detach --qmp /tmp/qmp --timeout 3 "$edu"
check "QEMU still has it open" qemu_has_it
facet pci detach --qmp /tmp/qmp --timeout 90 "$edu" >/tmp/detached 2>&1 &
detach=$!
sleep 3
tell qmp_capabilities
tell system_reset
check "the detach ends" wait_for has_ended "$detach"
check "the detach reports that edu is out of the VM" grep -x "$edu: out of the VM" /tmp/detached
check "QEMU has closed it" qemu_has_it_not
check "edu is given back, to no driver" give_back "$edu" none
kill "$qemu"
wait "$qemu" || true
