# For the tale: programs get huge pages where there are some, and nobody compacts for it, neither in the
# fault nor, as kernels do since 5.9, in the background.
# The emulator is slow where the guest touches a page for the first time.
case $1 in
thrash | pinned)
	echo always >/sys/kernel/mm/transparent_hugepage/enabled
	echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
	echo 0 >/proc/sys/vm/compaction_proactiveness
	hold anon 360M once
	;;
esac
