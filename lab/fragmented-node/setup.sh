# For the tale: programs get huge pages where there are some, and nobody compacts for it, neither in the
# fault nor, as kernels do since 5.9, in the background.
# The emulator is slow where the guest touches a page for the first time.
case $1 in
thrash | pinned | pooled)
	echo always >/sys/kernel/mm/transparent_hugepage/enabled
	echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
	echo 0 >/proc/sys/vm/compaction_proactiveness
	hold anon 360M once
	;;
esac
if [ "$1" = pooled ]; then
	echo always >/sys/kernel/mm/transparent_hugepage/shmem_enabled
	memwright pool serve 2>/run/why &
	for try in 1 2 3 4 5 6 7 8 9 10; do memwright pool list && break; sleep 0.5; done
	memwright pool create db --size 224M --huge thp 2>>/run/why || exit 1
	memwright run --pool db -- database first 224 >/dev/null
fi
