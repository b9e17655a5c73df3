# Plays the trials of one boot one after another, while the recorder runs: accuracy/src/trials.
#
# ./plays has a line `play INDEX SERVICE QUIET_S HOLD_S CONDITION... -- DECOY...` for each; a condition or a decoy is
# a word `NAME:ARGUMENT,...`. ./boot sets what all of them share. What happened when goes to /run/keep/times, as lines
# `WHAT INDEX UNIX_MS`; what the client saw to /run/keep/client.INDEX.
. ./boot
# On the host it is the folder of these trials, and in a guest that of all services.
[ -n "$PREFIX" ] && place=host || place=guest PREFIX=services/
. ./groups
. ./services
. ./conditions
. ./decoys
[ $place = guest ] || . ./host

# The recorder compares a stall with the time before it.
BASELINE_S=8
# A client measures this long before the recorder starts, for what its start costs the service.
START_S=4
RECOVERY_S=20
RECORDING=/run/recording.db

event() { echo "$* $(load now)" >>/run/keep/times; }

# each begin|end WORD...: what the words name, in order.
each() {
	do=$1
	shift
	for word in "$@"; do
		name=${word%%:*}
		arguments=
		[ "$name" = "$word" ] || arguments=$(echo "${word#*:}" | tr , ' ')
		"${do}_$(echo "$name" | tr - _)" $arguments
	done
}

# recovered SERVICE: waits until it answers again.
recovered() {
	until timeout $RECOVERY_S ask $(request_of "$1") 2>/dev/null; do
		# Of coreutils or of busybox.
		case $? in 124 | 143) return 1 ;; esac
		[ $((tries = tries + 1)) -gt $((RECOVERY_S * 5)) ] && return 1
		sleep 0.2
	done
}

play() {
	index=$1 S=$2 quiet=$3 hold=$4
	shift 4
	conditions=${*%%-- *} decoys=${*#*-- }
	[ "$conditions" = "$*" ] && conditions=${*%%--} decoys=
	mark "at play/$index"
	each begin $decoys
	client "$S" "/run/keep/client.$index" &
	client=$!
	sleep "$quiet"
	event begin "$index"
	each begin $conditions
	sleep "$hold"
	event lift "$index"
	each end $conditions
	tries=0
	recovered "$S" || event lost "$index"
	sleep 2
	event end "$index"
	kill -TERM $client
	each end $decoys
	wait $client
	restored
}

unusable() {
	[ $place = host ] || for file in /run/keep/*; do frame "keep/${file##*/}" <"$file"; done
	finish "failed: $1: $(tail -n 3 /run/keep/*.log)"
}

mkdir -p /run/keep
chmod 1777 /tmp /run
prepared || unusable "the disks cannot be prepared"
for service in $SERVICES; do
	"start_$service" || unusable "$service does not start"
done
for service in $SERVICES; do
	tries=0
	recovered "$service" || unusable "$service does not answer"
	set -- "$@" --probe "$(probe_of "$service")"
	! grep -q "^play [0-9]* $service .*wrong-password" plays || set -- "$@" --probe "$(login_probe_of "$service")"
done
mark "at baseline"
client "${SERVICES%% *}" /run/keep/client.start &
client=$!
sleep $START_S
event recorder 0
memwright watch --recording $RECORDING --limit "$LIMIT" "$@" 2>/run/keep/watch.log &
watcher=$!
sleep $BASELINE_S
event recording 0
kill -TERM $client
. ./plays
mark "at report"
sleep 2
kill -TERM $watcher
wait $watcher
echo "exit $?" >>/run/keep/watch.log
for try in 1 2 3 4 5 6 7 8; do [ -e $RECORDING-wal ] && sleep 0.5; done
tar -c -f - -C /run recording.db $([ -e $RECORDING-wal ] && echo recording.db-wal) | gzip -1 >/run/keep/recording.tar.gz
