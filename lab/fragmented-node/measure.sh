# The same request before and after: a job of JOB_MIB.
JOB_MIB=224
meminfo() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }

# job NAME: how long it takes to have the memory, and how much of it is huge pages.
job() {
	took "$1" hold anon ${JOB_MIB}M name=next
	echo "$1-huge $(($(meminfo AnonHugePages) / 1024 * 100 / JOB_MIB)) %"
	killall -9 next
	sleep 0.5
}

# Huge pages in advance, and back.
ask() {
	took asked sh -c "echo $((JOB_MIB / 2)) >/proc/sys/vm/nr_hugepages"
	echo "asked-huge $(($(meminfo HugePages_Total) * 200 / JOB_MIB)) %"
	echo 0 >/proc/sys/vm/nr_hugepages
}

# A job as it is, and from the pool, five times, for the shortest time and the least that is huge: each has
# what the one before it has given back.
restart() {
	database plain $JOB_MIB
	for try in 1 2 3 4 5; do
		memwright run --pool db --pool-strict -- database restart $JOB_MIB
	done | sort -n -k 2 >/run/restarts
	grep '^restart ' /run/restarts | head -n 1
	grep '^restart-huge ' /run/restarts | head -n 1
}

echo "free $(($(meminfo MemFree) / 1024)) MiB"
case $1-$2 in
thrash-before | thrash-reverted | pinned-before) job job && ask ;;
thrash-during | thrash-fixed) job job ;;
pinned-during)
	job job && ask
	memwright fix fragmented-node >&2
	echo "fix $? code"
	job mended
	killall -9 service
	sleep 1
	echo 1 >/proc/sys/vm/compact_memory
	job unpinned
	;;
pooled-*)
	restart && ask
	# Each restart has the stripes of the one before, zeroed in place: exchanged ones would have to be
	# found again as huge pages.
	echo "exchanged $(grep -c 'is exchanged' /run/why) stripes"
	;;
esac
