# A process writes 320 MiB of fragmented memory, without and with MADV_HUGEPAGE; then once more when memory
# is whole again. One page in 24 of nearly all memory stays pinned in pipes.
SIZE_MIB=320
LEFT_MIB=64

counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
huge_mib() { awk '$1 == "AnonHugePages:" { print int($2 / 1024) }' /proc/meminfo; }

# allocate NAME [WORD]: how long it takes, and how much of it is huge pages.
allocate() {
	took "$1" hold anon ${SIZE_MIB}M name=job $2
	echo "$1-huge $(($(huge_mib) * 100 / SIZE_MIB)) %"
	killall -9 job
	sleep 0.5
}

free=$(awk '$1 == "MemFree:" { print int($2 / 1024) }' /proc/meminfo)
hold fragment $((free - LEFT_MIB))M every=24 name=pins || exit 1
stalls=$(counter compact_stall)
allocate plain
allocate advised thp
echo "compact-stall $(($(counter compact_stall) - stalls)) times"
killall -9 pins
sleep 0.5
allocate whole
