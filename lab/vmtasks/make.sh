# What the benches say is kept for measure.sh.
mkdir -p /run/keep
node0=/sys/devices/system/node/node0
pool0=$node0/hugepages/hugepages-2048kB/nr_hugepages
pool1=${pool0/node0/node1}

# bench NAME WORD...: a bench whose report is /run/keep/NAME.json.
bench() {
	name=$1
	shift
	memwright bench --json --rounds 1 --threads "$(nproc)" "$@" >"/run/keep/$name.json" ||
		{ echo "bench $* ended with $?" >/run/why; return 1; }
}

# place PLACE...: every kind in these places; as large as it takes for eight helpers to have a chunk each.
place() {
	for place in "$@"; do
		for kind in ism dism memfd anon; do
			bench $kind-$place --size 16M --kind $kind --page 4k --place $place || return 1
		done
		bench hugetlb-$place --size 32M --kind hugetlb --reserve --place $place || return 1
	done
}

free_mb() { awk '/MemFree/ { print int($4 / 1024) }' $node0/meminfo; }

# Node 0 has less than the segment, or just as much: the kernel would not refuse the last pages but kill
# who asks for them. Huge pages fill the node in no time, for nobody writes them.
small_node() {
	echo $((($(free_mb) - 24) / 2)) >$pool0
	for kind in ism dism memfd anon; do
		bench node-$kind --size 32M --kind $kind --page 4k --place bind:0 || return 1
	done
	bench node-split --size 64M --kind memfd --page 4k --place split:0,1 || return 1
	bench node-brim --size "$(free_mb)M" --kind anon --page 4k --place bind:0 || return 1
	echo 0 >$pool0
}

# The pool has less than the segment, or has it on the other node.
few_huge_pages() {
	echo 8 >$pool1
	bench huge-few --size 32M --kind hugetlb || return 1
	echo 16 >$pool1
	bench huge-elsewhere --size 32M --kind hugetlb --place bind:0 || return 1
	echo 0 >$pool1
}

# The bench's own control group has less than the segment.
small_group() {
	mkdir /sys/fs/cgroup/small && echo 24M >/sys/fs/cgroup/small/memory.max || return 1
	(
		echo 0 >/sys/fs/cgroup/small/cgroup.procs
		memwright bench --size 32M --rounds 1 2>/run/keep/group.txt
	)
	[ $? = 1 ]
}

case $1 in
faults) small_node && few_huge_pages && small_group ;;
cpus-1) place bind:1 interleave:0,1 ;;
cpus-2) place bind:0 bind:1 interleave:0,1 split:0,1 ;;
cpus-4) place bind:0 split:0,1 ;;
cpus-8) place bind:1 split:0,1 ;;
esac
