# The next job needs half of the machine's memory in huge pages.
WANTED=$(($(awk '/MemTotal/ { print $2 }' /proc/meminfo) / 4096 * 2))
POOL=/proc/sys/vm/nr_hugepages

vmstat() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

cat >/run/plain.sh <<END
echo $((WANTED / 2)) >$POOL
END
cat >/run/drop-compact.sh <<END
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
echo $((WANTED / 2)) >$POOL
END
cat >/run/compaction.sh <<END
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
END
cat >/run/make-room.sh <<END
memwright make-room ${WANTED}M,huge=2M
END
tail -1 /sys/kernel/debug/extfrag/unusable_index | awk '{ print "unusable", $(NF - 1) * 100, "%" }'
stolen=$(vmstat pgsteal_file)
neighbour 5 sh /run/$1.sh
echo "got $(($(cat $POOL) * 2)) MiB"
echo "dropped $((($(vmstat pgsteal_file) - stolen) / 256)) MiB"
