# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154,SC2317
# `facet pci` where other users and tools act on the same functions, a disk is full, the host restarts, or a bound
# function is removed.
edu=$(find_function 1234:11e8)
nvme=$(find_function 1b36:0010)
other=$(find_function 1b36:0005) # in nvme's group
export FACET_STATE_DIR=/tmp/state FACET_RUNTIME_DIR=/tmp/run FACET_PCI_RULES_DIR=/tmp/rules
mkdir -p /tmp/state /tmp/run /tmp/rules /tmp/home
chmod 755 /tmp
chmod 777 /tmp/home
printf 'root:x:0:0::/:/bin/sh\nvm:x:1000:1000::/:/bin/sh\nno:x:1001:1001::/:/bin/sh\n' >/etc/passwd
printf 'vm:x:1000:\nno:x:1001:\n' >/etc/group
boot=/proc/sys/kernel/random/boot_id
override_of() { cat "$devices/$1/driver_override"; }
holder_has_ended() { grep -q "^exit" "$1"; }
count_journals() { find /tmp/state/passthrough -name '*.journal' | wc -l; }

check_refusal "a function that was not bound is not unbound" "was not bound by Facet" facet pci plan --unbind "$edu"
check_refusal "a host driver is refused as a driver of vfio" "no driver of vfio" facet pci bind --driver nvme "$edu"
check "nvme has its driver" wait_for has_driver "$nvme" nvme

# ---- another tool wrote an override for the next probe ----
echo vfio-pci >"$devices/$nvme/driver_override"
check "nvme is bound" facet pci bind "$nvme"
check "nvme is unbound" facet pci unbind "$nvme"
check "nvme has its driver despite the override" wait_for has_driver "$nvme" nvme
check "the override is restored" [ "$(override_of "$nvme")" = vfio-pci ]
echo >"$devices/$nvme/driver_override"

# ---- two binds at once ----
for turn in 1 2; do
    { facet pci bind "$nvme" || echo failed; echo exit; } >/tmp/bind$turn 2>&1 &
done
check "the first of two concurrent binds ends" wait_for holder_has_ended /tmp/bind1
check "the second of two concurrent binds ends" wait_for holder_has_ended /tmp/bind2
check "both binds succeed" sh -c "cat /tmp/bind1 /tmp/bind2; ! grep -q failed /tmp/bind1 /tmp/bind2"
wait
check "there is one journal" [ "$(count_journals)" = 1 ]

# ---- the driver is gone ----
check "nvme's driver is unloaded" rmmod nvme
check_refusal "nvme is not unbound without a driver to return to" "loading the module nvme" facet pci unbind "$nvme"
check "nvme keeps vfio-pci" has_driver "$nvme" vfio-pci
check "its neighbour keeps vfio-pci" has_driver "$other" vfio-pci
insmod /modules/*-nvme.ko
check "nvme is unbound once its driver is loaded" facet pci unbind "$nvme"
check "nvme has that driver" wait_for has_driver "$nvme" nvme

# ---- no room for the journal ----
mount -t tmpfs -o size=16k none /tmp/state
mkdir -m 700 /tmp/state/passthrough
dd if=/dev/zero of=/tmp/state/fill bs=4k count=8 2>/dev/null
check_refusal "without a journal nothing is bound" "No space left" facet pci bind "$nvme"
check "nvme keeps its driver" has_driver "$nvme" nvme
umount /tmp/state
chmod 775 /tmp/state/passthrough
check_refusal "nothing is bound with a journal folder that others may write" "may be written by others" \
    facet pci bind "$nvme"
chmod 700 /tmp/state/passthrough

# ---- owners of functions ----
check "edu is bound for a user" facet pci bind --owner vm "$edu"
check "that user opens edu" su vm -c "passthrough-guest open $edu"
check_refusal "another user does not open edu" "Permission denied" su no -c "passthrough-guest open $edu"
check_refusal "a user other than root binds nothing" "" su no -c "FACET_STATE_DIR=/tmp/home facet pci bind $nvme"
check "a rule is written" facet pci persist add --owner vm "$edu"

# ---- the host restarts: simulated by another boot id, and by taking edu from vfio-pci ----
echo 99999999-2222-3333-4444-555555555555 >/tmp/boot
mount --bind /tmp/boot $boot
echo "$edu" >/sys/bus/pci/drivers/vfio-pci/unbind
echo >"$devices/$edu/driver_override"
check "rules are applied" facet pci persist apply
check "the rule's user opens edu" su vm -c "passthrough-guest open $edu"

# ---- a function is removed while it is bound ----
echo 1 >"$devices/$edu/remove"
check "a removed function is absent" sh -c "facet pci state | tee /dev/stderr | grep -q '$edu.*absent'"
echo 1 >/sys/bus/pci/rescan
check "edu is present again" wait_for is_present "$edu"
check_refusal "edu is not bound while its state has drifted" "give it back first" facet pci bind "$edu"
check "recovery reports the drift" sh -c "facet pci recover | tee /dev/stderr | grep -q '^drift $edu'"
check "edu is unbound" facet pci unbind "$edu"
check "edu is bound again" facet pci bind "$edu"
check "edu is unbound again" facet pci unbind "$edu"
check "no journal is left" [ "$(count_journals)" = 0 ]
facet pci bind "$nvme" >/tmp/bind 2>&1 &
binder=$!
sleep 0.2
echo 1 >"$devices/$nvme/remove"
wait "$binder"
check "recovery succeeds after a function was removed during its bind" sh -c "cat /tmp/bind; facet pci recover"
check "the rest of the group is bound whole or not at all" sh -c "case \$(find /tmp/state/passthrough -name '*.journal' | wc -l) in
    0) [ ! -e $devices/$other/driver ] ;; *) [ -e $devices/$other/driver ] ;; esac"
