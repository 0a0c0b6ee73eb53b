#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Owns: the first process of a virtual machine, which mounts file systems, loads modules, runs one script and switches
# the machine off.
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin:/usr/bin LC_ALL=C WAY=group
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# The first serial port is the kernel's; the second is the test's.
exec </dev/null >/dev/ttyS1 2>&1
stty -onlcr -echo </dev/ttyS1 # lines end as they are written
for module in /modules/*.ko; do [ ! -e "$module" ] || insmod "$module" || echo "# $module: not loaded"; done
echo "# up after $(cut -d ' ' -f 1 /proc/uptime) s"
sh -c '. /lib.sh; . /check.sh'
status=$?
if [ "$status" = 0 ]; then
    echo "@end"
    read -r _ </dev/ttyS1 # the test's answer, when all its actions have ended
else echo "# the script ended with $status"; fi
sync
poweroff -f
