. ./room
[ "$2" = during ] || exit 0

huge() { echo "$1-huge $(($(meminfo HugePages_Total) * 200 / WANTED)) %"; }

# counted NAME COMMAND...: what a request swaps out and reclaims, in MiB.
counted() {
	name=$1
	shift
	swapped=$(vmstat pswpout) cached=$(meminfo Cached)
	"$@"
	code=$?
	echo "$name-exit $code code"
	echo "$name-swapped $((($(vmstat pswpout) - swapped) / 256)) MiB"
	echo "$name-dropped $(((cached - $(meminfo Cached)) / 1024)) MiB"
}

room() { memwright make-room "$@" >>/run/keep/log 2>&1; }

if [ "$1" = service ]; then
	condition "$1"
	counted refused room ${WANTED}M,huge=2M
	counted room room ${WANTED}M,huge=2M --allow-swap
	huge room
	memwright undo >>/run/keep/log
	# While another program stalls that did not before, it pauses, and gives up at its limit.
	condition "$1"
	mkdir /sys/fs/cgroup/thrash
	echo 40M >/sys/fs/cgroup/thrash/memory.max
	cat >/run/thrash.sh <<-END
		while [ "\$(cat $POOL)" = 0 ]; do :; done
		echo \$\$ >/sys/fs/cgroup/thrash/cgroup.procs
		exec hold touch 80M name=thrash
	END
	sh /run/thrash.sh &
	memwright make-room 300M,huge=2M --max-cost stall=10ms --json >/run/report
	echo "stalled-exit $? code"
	awk '/"paused_ms":/ { gsub(/[^0-9.]/, "", $2); print "stalled-paused", $2, "ms" }
		/"stall_ms":/ { gsub(/[^0-9.]/, "", $2); print "stalled-others", $2, "ms" }' /run/report
	cat /run/report >>/run/keep/log
	exit
fi

if [ "$1" = copy ]; then
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zero of=/mnt/data/database bs=1M count=150 2>/dev/null
	sync
	exec 4<>/mnt/data/database
	cat <&4 >/dev/null
	sh -c 'exec 3</mnt/data/file; dd bs=1M count=600 <&3 >/dev/null 2>&1; echo >/run/copied; sleep 1000' &
	while ! [ -e /run/copied ]; do sleep 0.1; done
	memwright make-room ${WANTED}M --json >/run/report
	echo "room-exit $? code"
	tee -a /run/keep/log </run/report | awk '/"kind":/ { kind = $2 }
		/"gained_bytes":/ && kind ~ /drop-read/ { gsub(/[^0-9]/, ""); print "room-behind", int($0 / 1048576), "MiB" }'
	read=$(vmstat pgpgin)
	cat /mnt/data/database >/dev/null
	echo "database-reads $((($(vmstat pgpgin) - read) / 1024)) MiB"
	exit
fi

# on_node PROCESS NODE: how much of its anonymous memory is there, in MiB.
on_node() {
	awk -v field="N$2=" '/anon=/ { for (i = 3; i <= NF; i++) if (index($i, field) == 1) n += substr($i, 4) }
		END { print int(n / 256) }' "/proc/$(pidof "$1" | awk '{ print $1 }')/numa_maps"
}

if [ "$1" = node ]; then
	counted refused room ${WANTED}M,node=1
	echo "held-before $(on_node held 1) MiB"
	moved=$(vmstat pgmigrate_success)
	room ${WANTED}M,node=1 --allow-migrate --hold 100ms
	echo "room-exit $? code"
	echo "room-moved $((($(vmstat pgmigrate_success) - moved) / 256)) MiB"
	echo "bound-after $(on_node bound 1) MiB"
	exit
fi

if [ "$1" = unified-memory ]; then
	# A checkpoint is copied all the time, and fills the page cache again.
	sh -c 'while :; do cp /mnt/data/file /mnt/data/checkpoint; done' &
	copy=$!
	echo $((WANTED / 2)) >/proc/sys/vm/nr_overcommit_hugepages
	plain=0 made=0
	for try in 1 2 3 4; do
		sleep 2
		hold hugetlb ${WANTED}M once name=driver && plain=$((plain + 1))
		sleep 2
		room ${WANTED}M,huge=2M -- hold hugetlb ${WANTED}M once name=driver && made=$((made + 1))
	done
	kill $copy
	echo "plain-reached $plain times"
	echo "room-reached $made times"
	exit
fi

plain=0 made=0
for try in 1 2 3 4; do
	condition "$1"
	echo $((WANTED / 2)) >$POOL
	echo "plain $(($(cat $POOL) * 2)) MiB" >>/run/keep/log
	[ "$(cat $POOL)" -lt $((WANTED / 2)) ] || plain=$((plain + 1))
	condition "$1"
	room ${WANTED}M,huge=2M
	[ "$(cat $POOL)" -lt $((WANTED / 2)) ] || made=$((made + 1))
	memwright undo >>/run/keep/log
done
echo "plain-reached $plain times"
echo "room-reached $made times"

# Not at the edge.
WANTED=400

# Killed in the middle.
condition "$1"
room ${WANTED}M,huge=2M &
while [ "$(cat $POOL)" = 0 ]; do :; done
killall -9 memwright
wait
memwright changes >>/run/keep/log
memwright undo >>/run/keep/log
echo "killed-left $(cat $POOL) pages"

condition "$1"
room ${WANTED}M,huge=2M -- hold hugetlb ${WANTED}M once name=job
echo "command-reached $(($? == 0)) times"
echo "command-left $(cat $POOL) pages"

# Transparent huge pages, held for a moment.
condition "$1"
room 300M,huge=thp --hold 100ms
echo "thp-exit $? code"

# It gives up before it costs more than it may.
condition "$1"
counted limited room ${WANTED}M,huge=2M --max-cost drop=100M
echo "limited-left $(cat $POOL) pages"

# What cannot be reached costs nobody anything.
condition "$1"
counted refused room 900M,huge=2M
