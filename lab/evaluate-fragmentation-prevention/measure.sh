# The service first: how long it waited for its memory.
for try in 1 2 3 4 5 6 7 8 9 10; do
	[ -s /run/waited ] && break
	sleep 1
done
cat /run/waited || exit 1

# The next job: as many huge pages of 2 MiB as the free memory is worth; and, when it has given them back,
# 300 MiB in folios of 64 KiB, then in pages of 4 KiB.
. ./sizes
meminfo() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }

tail -1 /sys/kernel/debug/extfrag/unusable_index | awk '{ print "unusable", $(NF - 1) * 100, "%" }'
echo "free $(($(meminfo MemFree) / 1024)) MiB"
case $1 in
reserve) wanted=$RESERVE_PAGES ;;
*) wanted=$((($(meminfo MemFree) / 1024 - LEFT_MIB) / 2)) ;;
esac
echo "echo $wanted >/proc/sys/vm/nr_hugepages" >/run/ask.sh
took huge sh /run/ask.sh
got=$(meminfo HugePages_Free)
echo "huge-got $((got * 2)) MiB"
echo "huge-share $((got * 100 / wanted)) %"
echo 0 >/proc/sys/vm/nr_hugepages
sizes=/sys/kernel/mm/transparent_hugepage/hugepages-64kB
echo never >${sizes%-*}-2048kB/enabled
echo always >$sizes/enabled
took medium hold anon ${NEXT_MIB}M once
echo "medium-share $(($(cat $sizes/stats/anon_fault_alloc) * 100 / (NEXT_MIB * 16))) %"
echo never >$sizes/enabled
took small hold anon ${NEXT_MIB}M nothp once
