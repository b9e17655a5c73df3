# Without swap the pages of a tmpfs have nowhere to go; those of a ramfs never have.
case $1 in
firing)
	mount -t ramfs ramfs /mnt && size=330
	;;
firing-tmpfs)
	mount -t tmpfs -o size=400M,mpol=bind:0 tmpfs /mnt && size=330
	;;
quiet)
	mount -t tmpfs -o size=400M,mpol=bind:0 tmpfs /mnt && size=50
	;;
esac
# CPU 0 is of node 0, and a page is allocated where its first writer runs.
taskset 1 dd if=/dev/zero of=/mnt/data bs=1M count=$size 2>/dev/null
