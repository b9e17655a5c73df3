# What the benches of make.sh have said, and what they have left.

# Memory that outlives a program: shared memory, huge pages, System V segments.
state() {
	awk '/^Shmem:/ { print "shmem", $2, "kB" } /^HugePages_Total:/ { print "huge-pages", $2, "pages" }' /proc/meminfo
	echo "segments $(($(wc -l </proc/sysvipc/shm) - 1)) segments"
}

if [ "$2" = before ]; then
	state >/run/state
	exit 0
fi
state | paste /run/state - | awk '{ print "left-" $1, $5 - $2, $3 }'
echo "killed $(awk '$1 == "oom_kill" { print $2 }' /proc/vmstat) processes"
cd /run/keep || exit 1

# rows FILE...: a line `HELPERS NODE0 NODE1 WAY` for each way that was measured, but for the plain calls,
# which are placed nowhere.
rows() {
	awk -F: '
		/"way":/ { way = $2 }
		/"threads":/ { threads = $2 + 0 }
		/"node_shares": \{/ { inside = 1; share[0] = share[1] = 0 }
		inside && /"[01]":/ { gsub(/[ "]/, "", $1); share[$1] = $2 + 0 }
		inside && /\}/ { inside = 0; print threads, share[0], share[1], way }
	' "$@"
}
ours() { rows "$@" | grep '"memwright'; }
least() { sort -n | head -n 1; }
most() { sort -n | tail -n 1; }

# The shares of the nodes that segments are bound to.
bound() {
	for file in *bind:*; do
		case $file in
		*bind:0*) rows "$file" | cut -d' ' -f2 ;;
		*bind:1*) rows "$file" | cut -d' ' -f3 ;;
		esac
	done
}

# refused WORDS FILE...: how many ways were refused in these words.
refused() {
	words=$1
	shift
	cat "$@" | grep '"why":' | grep -c "$words"
}

echo "ways $(rows *.json | wc -l) ways"
if [ "$1" = faults ]; then
	echo "refused-by-node $(refused 'free memory of the node' node-*.json) ways"
	echo "refused-by-pool $(refused 'free huge pages of 2 MiB' huge-*.json) ways"
	echo "refused-by-group $(grep -c 'memory limit of cgroup /small' group.txt) benches"
	exit 0
fi
echo "absent $(refused . *.json) ways"
even=$(ls | grep -E 'interleave|split')
echo "bound-least $(bound | least) share"
echo "even-least $(rows $even | cut -d' ' -f2 | least) share"
echo "even-most $(rows $even | cut -d' ' -f2 | most) share"
# CPUs that have not helped: all are to do so, or those of the node that a segment is bound to.
cpus=$(nproc)
echo "idle $((cpus - $(ours $even | cut -d' ' -f1 | least))) cpus"
echo "idle-bound $(((cpus + 1) / 2 - $(ours *bind* | cut -d' ' -f1 | least))) cpus"
