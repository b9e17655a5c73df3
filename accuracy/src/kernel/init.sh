#!/bin/busybox sh
# PID 1 of the guest: prints the kernel's files, each as a frame, and turns the machine off.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir /dev/pts
mount -t devpts devpts /dev/pts
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# The kernel says where, so that its own messages do not come between.
exec </dev/null >"/dev/$port" 2>/dev/null

# frame NAME: standard input, compressed.
frame() {
	echo "@@begin $1"
	gzip -c | base64
	echo "@@end"
}

echo 0 >/proc/sys/kernel/kptr_restrict
cd /sys/fs/cgroup
for controller in memory cpu io pids cpuset; do echo "+$controller" >cgroup.subtree_control; done
mkdir leaf
sh -c 'echo $$ >leaf/cgroup.procs; cat /init >/tmp/copy'

uname -r | frame release
# By address, and not by the type: 7.3 has data of type t as well.
awk '$3 == "_stext" { on = 1 } $3 == "_etext" { on = 0 } on { print $3 }' /proc/kallsyms | sort -u | frame symbols
frame vmstat </proc/vmstat
frame meminfo </proc/meminfo
frame zoneinfo </proc/zoneinfo
frame memory.stat <leaf/memory.stat
ls leaf | frame cgroup
ls /proc/pressure 2>/dev/null | frame pressure
for point in @TRACEPOINTS@; do
	echo "== $point"
	cat "/sys/kernel/tracing/events/$point/format" 2>/dev/null
done | frame tracepoints
if [ -x /bin/waits ]; then
	# In whichever order they depend on each other.
	for round in 1 2 3 4; do
		for module in /modules/*.ko; do insmod "$module"; done
	done
	ip link set lo up
	# Allocated here, so that no cgroup with a limit is charged.
	dd if=/dev/zero of=/swap bs=1M count=64
	mkswap /swap
	losetup /dev/loop0 /disk
	losetup /dev/loop1 /swap
	# What hangs does not keep the rest from being printed.
	timeout -s KILL 300 waits /tmp/traces | frame waits
	frame traces </tmp/traces
fi
echo | frame end
poweroff -n -f
