# The next job: 320 MiB in pages of 4 KiB, then the same in huge pages of 2 MiB.
. ./sizes
unusable() { tail -1 /sys/kernel/debug/extfrag/unusable_index | awk '{ print "unusable-for-huge", $(NF - 1) * 100, "%" }'; }
free_huge() { awk '$1 == "HugePages_Free:" { print $2 }' /proc/meminfo; }

unusable
[ "$1" = reserve ] || took plain hold anon $((NEXT_PAGES * 2))M nothp once
cat >/run/ask.sh <<'ASK'
echo $1 >/proc/sys/vm/nr_hugepages
ASK
took huge sh /run/ask.sh $NEXT_PAGES
echo "huge-got $(($(free_huge) * 100 / NEXT_PAGES)) %"
