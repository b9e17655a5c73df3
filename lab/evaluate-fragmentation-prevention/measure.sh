# The next job: as many huge pages of 2 MiB as the free memory is worth; and, when it has given them back,
# the same request in pages of 4 KiB.
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
took small hold anon ${NEXT_MIB}M nothp once
