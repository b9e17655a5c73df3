# Asks `memwright check --for` and takes what was asked for: accuracy/src/preflight. It is sourced by guest/play.sh.
#
# ./settings has CONDITION, KINDS (what follows the size in a request; `-` for nothing, and `room` for make-room), SEED
# and EDGE_PARTS (edges are found to one part in so many and 1 MiB). All but the program that takes is protected from
# the OOM killer.
run=${dir:-/run}
. ./conditions
. ./settings
echo -1000 >/proc/self/oom_score_adj
number=0

# sized KB KIND: the request, of whole pages.
sized() {
	case $2 in
	*huge=2M*) bytes=$(($1 / 2048 * 2097152)) ;;
	*) bytes=$(($1 * 1024)) ;;
	esac
	words=
	[ "$2" = - ] || words=,$2
	echo "$bytes$words"
}

# verdict KB KIND: yes, slowly, no or unknown.
verdict() { inside memwright check --for "$(sized "$1" "$2")" 2>&1 | sed -n '1s/[^a-z].*//p'; }

# edge LOW HIGH KIND WORD...: between which sizes, in kB, the verdict stops to be one of the words; the lower one.
edge() {
	low=$1 high=$2 kind=$3
	shift 3
	while [ $((high - low)) -gt $((high / EDGE_PARTS + 1024)) ]; do
		middle=$(((low + high) / 2))
		said=$(verdict $middle "$kind")
		case " $* " in
		*" $said "*) low=$middle ;;
		*) high=$middle ;;
		esac
	done
	echo $low
}

# refused KIND: up to which size, in kB, a request is not refused: what the answer to one for far more says is there, or
# searched for where that is not the edge.
refused() {
	all=$((2 * $(meminfo_kb MemTotal)))
	inside memwright check --for "$(sized $all "$1")" --json >$run/answer 2>/dev/null
	there=$(awk '/"blocks":/ { blocks = /true/ }
		/"had_bytes":/ && blocks { gsub(/[^0-9]/, ""); if (!least || $0 < least) least = $0 }
		END { print int(least / 1024) }' $run/answer)
	if [ "$(verdict $((there * 101 / 100)) "$1")" = no ] && [ "$(verdict $((there * 98 / 100)) "$1")" != no ]; then
		echo "$there"
	else
		edge 0 $all "$1" yes slowly unknown
	fi
}

# drawn LOW HIGH: a number between both, from the seed.
drawn() {
	SEED=$(((SEED * 1103515245 + 12345) % 2147483648))
	drawn=$(($1 + SEED / 8 % ($2 - $1 + 1)))
}

# request KB KIND WHERE: asks and takes; WHERE says how the size was chosen.
request() {
	number=$((number + 1))
	asked=$(sized "$1" "$2")
	[ "${asked%%,*}" -gt 0 ] || return 0
	mark "at request/$number"
	inside memwright check --for "$asked" --json >$run/answer 2>$run/said
	code=$?
	inside take "$asked" >$run/taken 2>>$run/said
	taken=$?
	{
		echo "request $asked $3"
		echo "exit $code $taken"
		cat $run/taken
		head -c 2000 $run/said | sed 's/^/said /'
		echo answer
		sed -n '/"preflight"/,$p' $run/answer
	} | frame "keep/$number"
	rm -f $run/answer
	restore
}

# around KIND: requests far from the edges and close to them.
around() {
	no=$(refused "$1")
	low=0
	[ "$(verdict $((no * 3 / 4)) "$1")" != yes ] || low=$((no * 3 / 4))
	yes=$(edge $low $((no + 2048)) "$1" yes)
	drawn 5 80 && request $((yes * drawn / 100)) "$1" inside-yes
	drawn 970 1000 && request $((yes * drawn / 1000)) "$1" below-yes
	drawn 1005 1030 && request $((yes * drawn / 1000)) "$1" above-yes
	drawn 10 90 && request $((yes + (no - yes) * drawn / 100)) "$1" between
	drawn 970 1000 && request $((no * drawn / 1000)) "$1" below-no
	drawn 1008 1040 && request $((no * drawn / 1000)) "$1" above-no
	drawn 105 180 && request $((no * drawn / 100)) "$1" beyond-no
}

# growth NAME: what `check --for` says of the pool that is too small, in bytes.
growth() { awk -v name="\"$1\":" '$1 == name { gsub(/[^0-9]/, "", $2); print $2; exit }' $run/answer; }

# forced BYTES: whether the kernel provides the pages in the end, and keeps what the watermarks are for: it gives
# more, and calls the OOM killer then. Nothing is started meanwhile.
forced() {
	wanted=$(($1 / 2097152))
	kept_kb=$(awk '$1 == "high" { pages += $2 } END { print pages * 4 }' /proc/zoneinfo)
	forced=1
	for try in 1 2 3; do
		echo 1 >/proc/sys/vm/compact_memory
		echo $wanted >/proc/sys/vm/nr_hugepages
		read -r pool </proc/sys/vm/nr_hugepages
		while read -r name kb rest; do [ $name = MemFree: ] && free_kb=$kb; done </proc/meminfo
		[ $pool -ge $wanted ] && [ $free_kb -ge $kept_kb ] && forced=0
		echo 0 >/proc/sys/vm/nr_hugepages
		[ $forced = 1 ] || break
	done
	return $forced
}

# room KB WHERE: asks how far an empty pool can be grown, and makes room for it, which a command then takes. What
# is impossible make-room does not try: then the kernel is asked for it again and again.
room() {
	number=$((number + 1))
	bytes=$(($1 / 2048 * 2097152))
	[ $bytes -gt 0 ] || return 0
	mark "at room/$number"
	memwright check --for $bytes,huge=2M --json >$run/answer 2>$run/said
	least=$(growth least_bytes) most=$(growth most_bytes)
	answer=unknown
	[ $bytes -gt "$least" ] || answer=yes
	[ $bytes -le "$most" ] || answer=no
	memwright make-room $bytes,huge=2M -- take $bytes,huge=2M >$run/taken 2>>$run/said
	code=$?
	[ -s $run/taken ] || echo "refused make-room $code" >$run/taken
	[ $answer != no ] || ! forced $bytes || echo "taken 0" >$run/taken
	{
		echo "request $bytes,huge=2M $2"
		echo "exit $code 0"
		cat $run/taken
		head -c 3000 $run/said | sed 's/^/said /'
		echo answer
		echo "\"preflight\": { \"answer\": \"$answer\", \"summary\": \"$answer: $((least >> 20)) to $((most >> 20)) MiB\" } }"
	} | frame "keep/$number"
	rm -f $run/answer
	restore
}

# rooms: sizes around what the answer says can be provided at least and at most.
rooms() {
	memwright check --for $(($(meminfo_kb MemTotal) * 2048)),huge=2M --json >$run/answer
	yes=$(($(growth least_bytes) / 1024)) no=$(($(growth most_bytes) / 1024))
	drawn 5 80 && room $((yes * drawn / 100)) inside-yes
	drawn 970 1000 && room $((yes * drawn / 1000)) below-yes
	drawn 1005 1030 && room $((yes * drawn / 1000)) above-yes
	drawn 10 90 && room $((yes + (no - yes) * drawn / 100)) between
	drawn 970 1000 && room $((no * drawn / 1000)) below-no
	drawn 1020 1060 && room $((no * drawn / 1000)) above-no
	drawn 105 180 && room $((no * drawn / 100)) beyond-no
}

mark "at make"
"make_$(echo "${CONDITION#room-}" | tr - _)"
case $? in
0) ;;
77) finish "skipped: $(cat $run/why)" ;;
*) finish "failed: $CONDITION cannot be made: $(cat $run/why 2>/dev/null)" ;;
esac
mark "at account"
memwright explain --all-memory --json >$run/answer
frame keep/account <$run/answer
rm -f $run/answer
for kind in $KINDS; do
	case $kind in
	room) rooms ;;
	*) around "$kind" ;;
	esac
done
