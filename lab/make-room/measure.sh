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
	exit
fi

condition "$1"
cat /proc/buddyinfo >>/run/keep/log
memwright check --for ${WANTED}M,huge=2M >>/run/keep/log
counted plain sh -c "echo $((WANTED / 2)) >$POOL"
huge plain

condition "$1"
room ${WANTED}M,huge=2M --dry-run
counted room room ${WANTED}M,huge=2M
huge room
memwright undo >>/run/keep/log

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
echo "command-huge $(($? == 0 ? 100 : 0)) %"
echo "command-left $(cat $POOL) pages"

# What cannot be reached costs nobody anything.
condition "$1"
counted refused room 900M,huge=2M
