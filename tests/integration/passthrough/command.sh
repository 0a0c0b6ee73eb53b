# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The commands of `facet pci` on a real kernel: scan, doctor, plan, bind, unbind, recovery, rules and watch.
gpu=$(find_function 1af4:1050) # virtio's display, which has no driver here
edu=$(find_function 1234:11e8) # QEMU's educational device
nvme=$(find_function 1b36:0010)
other=$(find_function 1b36:0005) # in nvme's group
export FACET_STATE_DIR=/tmp/state FACET_RUNTIME_DIR=/tmp/run
mkdir -p /tmp/state /tmp/run

file_contains() { grep -qF "$1" "$2"; }
override_of() { cat "$devices/$1/driver_override"; }

# ---- looking ----
check "the scan succeeds" sh -c 'facet pci scan >/tmp/scan; cat /tmp/scan'
check "the scan lists the GPU" file_contains "$gpu" /tmp/scan
check "the doctor finds no fault" sh -c 'facet pci doctor >/tmp/doctor; cat /tmp/doctor'
check "the doctor finds the IOMMU" grep -q "^good *iommu" /tmp/doctor
check "the doctor finds interrupt remapping" grep -q "^good *interrupts" /tmp/doctor
check "one function is shown in full" sh -c "facet pci show $nvme >/tmp/show; cat /tmp/show"
check "the function is shown with the rest of its group" file_contains "as a group of 2 functions" /tmp/show

# ---- judging ----
check_refusal "the last GPU is not taken from a host that wants a screen" "last GPU" facet pci bind "$gpu"
check "nvme has its driver" wait_for has_driver "$nvme" nvme
check_refusal "half of a group is not bound" "is not viable" facet pci bind --alone "$other"
check "the other half keeps its driver" has_driver "$nvme" nvme

# ---- the process that has a disk open is found by device number, whatever the node's name ----
check "the disk has a device node" wait_for test -b /dev/nvme0n1
IFS=: read -r major minor </sys/block/nvme0n1/dev
mknod /dev/other b "$major" "$minor"
for node in /dev/nvme0n1 /dev/other /dev/nvme0; do
    sleep 600 <$node &
    holder=$!
    case $node in /dev/other) named=/dev/nvme0n1 ;; *) named=$node ;; esac # Facet names the kernel's node
    check_refusal "a disk is not bound while a process has $node open" "process $holder (sleep) has $named open" \
        facet pci bind "$nvme"
    kill "$holder"
    wait "$holder" 2>/dev/null
done
check "showing the disk's function leaves no device node of it open" sh -c "facet pci show $nvme | tee /dev/stderr | grep -q 'held by *no process'"

# ---- planning ----
check "a plan is printed" sh -c "facet pci plan $nvme >/tmp/plan; cat /tmp/plan"
check "the plan names the driver to unbind" file_contains "drivers/nvme/unbind" /tmp/plan
check "planning changes nothing" has_driver "$nvme" nvme

# ---- binding ----
check "edu is bound" facet pci bind "$edu"
check "edu has the driver vfio-pci" has_driver "$edu" vfio-pci
check "binding it again is no error" facet pci bind "$edu"
run_checks edu passthrough-guest edu "$edu"
check "a probe opens edu as a VM would" sh -c "facet pci doctor --probe $edu | tee /tmp/probe; grep -q '^good *probe .*1234:11e8.* opens through' /tmp/probe"
check_refusal "a function with a host driver is not probed" "facet pci bind" sh -c "facet pci doctor --probe $nvme >&2"
check "nvme is bound, with its group" facet pci bind "$nvme"
check "both functions of the group, and edu, are ready" sh -c "facet pci state >/tmp/state.txt; cat /tmp/state.txt; [ \$(grep -c ready /tmp/state.txt) = 3 ]"
run_checks nvme passthrough-guest config "$nvme"

passthrough-guest hold "$edu" request >/tmp/hold &
holder=$!
wait_for grep -q holding /tmp/hold
check "an open function is in_vm" sh -c "facet pci state | tee /dev/stderr | grep $edu | grep -q in_vm"
check_refusal "an open function is not unbound" "open" facet pci unbind "$edu"
check_refusal "an open function is not probed" "facet pci state" sh -c "facet pci doctor --probe $edu >&2"
kill "$holder"
wait "$holder" 2>/dev/null

check "nvme is unbound" facet pci unbind "$nvme"
check "nvme has its driver again" wait_for has_driver "$nvme" nvme
check "its neighbour has no driver again" has_driver "$other" none
check "nvme has no driver override" [ "$(override_of "$nvme")" = "(null)" ]
check "the disk comes back" wait_for ls -d /sys/block/nvme0n1
check_refusal "a function that Facet has not bound is not unbound" "not" facet pci unbind "$nvme"

# ---- killed during a bind: the next call leads to the old state or to the new one ----
for pause in 0.1 0.15 0.2 0.25 0.3 0.33 0.36 0.4 0.5; do
    facet pci bind "$nvme" >/tmp/bind 2>&1 &
    binder=$!
    sleep $pause
    kill -9 "$binder" 2>/dev/null
    wait "$binder" 2>/dev/null
    check "recovered after $pause s" facet pci recover
    case "$(driver_of "$nvme") $(driver_of "$other")" in
    "nvme none") echo "ok - killed after $pause s: as it was" ;;
    "vfio-pci vfio-pci")
        echo "ok - killed after $pause s: bound"
        facet pci unbind "$nvme" >/dev/null 2>&1
        ;;
    *) echo "not ok - killed after $pause s: $(driver_of "$nvme"), $(driver_of "$other")" ;;
    esac
    wait_for has_driver "$nvme" nvme
done

# ---- rules ----
check "a rule is written" facet pci persist add "$edu"
check "edu is unbound" facet pci unbind "$edu"
check_refusal "the rule is reported as not met" "" facet pci persist assert
check "the rule is applied" facet pci persist apply
check "the rule is met" facet pci persist assert
check "the rule is undone" facet pci persist undo
check "edu has no driver" has_driver "$edu" none

# ---- hot-plug ----
facet pci watch --all --timeout 600 --interval 600 >/tmp/watch 2>&1 &
watcher=$!
wait_for grep -q "^watching" /tmp/watch
mark plug
check "the watch reports a second edu" wait_for grep -q "added" /tmp/watch
new=$(find_function 1234:11e8 2)
check "the second edu is bound" facet pci bind "$new"
check "the watch reports its new driver" wait_for grep -q "$new driver none -> vfio-pci" /tmp/watch
mark unplug
check "the watch reports that it was removed" wait_for grep -q "$new removed" /tmp/watch
kill "$watcher"
wait "$watcher" 2>/dev/null
sed 's/^/# /' /tmp/watch
check "recovery succeeds after a bound function was removed" facet pci recover
