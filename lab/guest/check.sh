# The role `check`: the phases before, during, fixed and reverted. Every step is announced; its output and
# exit code are sent as frames, and the host judges them.
#
# $FIND: the rules that must report a finding. $FIX: the rules for `fix`. $STAYS: set where the condition
# does not return after `undo`. $LOOKS: how many checks a condition that comes in bursts gets. With
# $MEASURED_ONLY the condition is only created and measured.
FRAME_BYTES_MAX=1000000
# The kernel reports a task that is blocked for this long.
HUNG_TASK_S=30

# step NAME COMMAND...
step() {
	name=$1
	shift
	mark "at $name"
	"$@" >/run/out
	code=$?
	head -c $FRAME_BYTES_MAX /run/out | frame "$name"
	echo $code | frame "$name.exit"
}

measure() {
	[ -f measure.sh ] && step "$1/measure" sh ./measure.sh "$VARIANT" "$1"
}

is_found() {
	grep -q "^ *\"rule\": \"$1\"" /run/report
}

# Whether the last report has all of the rules after $1, or none of them.
shows() {
	wanted=$1
	shift
	for rule in "$@"; do
		if is_found "$rule"; then seen=found; else seen=gone; fi
		[ $seen = "$wanted" ] || return 1
	done
}

# Whether the last report has a finding above a note.
blames() {
	grep -q '^ *"severity": "\(warning\|critical\)"' /run/report
}

# check found|gone [RULE...]: the report, repeated until it shows that, at most $LOOKS times; without rules,
# until it has a finding above a note.
check() {
	looks=0
	while :; do
		memwright check --json >/run/report
		code=$?
		looks=$((looks + 1))
		[ $looks -ge "$LOOKS" ] && break
		if [ $# -gt 1 ]; then shows "$@"; else blames; fi && break
		sleep 1
	done
	cat /run/report
	return $code
}

# The current values of the settings that `fix` changed.
settings() {
	sed -n 's|^ *"path": "\(/[^"]*\)",*$|\1|p' /run/fixed | sort -u | while read -r path; do
		echo "$path $(cat "$path" 2>/dev/null)"
	done
}

echo $HUNG_TASK_S >/proc/sys/kernel/hung_task_timeout_secs
mark "at setup"
[ -f setup.sh ] && script setup.sh
[ -n "$MEASURED_ONLY" ] || measure before
mark "at make"
script make.sh
[ -n "$MEASURED_ONLY" ] || step during/check check found $FIND
measure during
if [ -n "$FIX" ]; then
	step fix memwright fix $FIX --json
	cp /run/out /run/fixed
	step fixed/check check gone $FIX
	measure fixed
	step undo memwright undo --json
	step reverted/settings settings
	if [ -n "$STAYS" ]; then step reverted/check check gone; else step reverted/check check found $FIX; fi
	measure reverted
fi
frame_kept
finish passed
