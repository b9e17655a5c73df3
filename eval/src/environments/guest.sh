# The environments of one guest, whose control groups are of version $1 (see lab/guest/init).
# What `check` prints in each, and its exit code, comes back in /run/keep.
mkdir -p /run/keep
root=/sys/fs/cgroup

# look NAME COMMAND...: as COMMAND runs it, or as it is.
look() {
	name=$1
	shift
	for format in text nagios json; do
		"$@" memwright check --format $format >"/run/keep/$name.$format"
		echo $? >"/run/keep/$name.$format.exit"
	done
}

# inside GROUP COMMAND...
inside() {
	echo 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' >/run/inside
	sh /run/inside "$@"
}

case $1 in
v2)
	look v2
	mkdir $root/small
	echo 128M >$root/small/memory.max
	look v2-small inside $root/small
	rmdir $root/small
	umount $root
	look none
	mount -t tmpfs none /proc/sys/vm
	look masked-proc
	umount /proc/sys/vm
	mount -t tmpfs none /sys
	look masked-sys
	umount /sys
	;;
v1)
	look v1
	mkdir $root/memory/small
	echo 128M >$root/memory/small/memory.limit_in_bytes
	look v1-small inside $root/memory/small
	rmdir $root/memory/small
	mkdir $root/unified
	mount -t cgroup2 cgroup2 $root/unified || { echo "no cgroup2" >/run/why; exit 1; }
	look hybrid
	;;
esac
