# The role `play`: measured before, made, found, mended, taken back. Every step is announced, and what
# it prints and its exit code are sent as frames; whether that is what the case promises is judged on
# the host.
#
# $FIND what the case wants found, $FIX what `fix` is to mend, $STAYS set where undoing the fix does
# not bring the condition back, $LOOKS how often to look for what comes in bursts. With $MEASURED_ONLY
# the condition is made and measured, and that is all.
FRAME_BYTES_MAX=1000000
# A task that makes no progress for so long is reported by the kernel.
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

# Whether the last look shows all of the rules after $1, or none of them.
shows() {
	wanted=$1
	shift
	for rule in "$@"; do
		if is_found "$rule"; then seen=found; else seen=gone; fi
		[ $seen = "$wanted" ] || return 1
	done
}

# check found|gone RULE...: the report, taken again until it shows that, $LOOKS times at most.
check() {
	looks=0
	while :; do
		memwright check --json >/run/report
		code=$?
		looks=$((looks + 1))
		[ $looks -ge "$LOOKS" ] && break
		shows "$@" && break
		sleep 1
	done
	cat /run/report
	return $code
}

# The settings that `fix` has changed, as they are now.
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
	step undone/settings settings
	if [ -n "$STAYS" ]; then step undone/check check gone; else step undone/check check found $FIX; fi
	measure undone
fi
for file in /run/keep/*; do
	[ -f "$file" ] && frame "keep/${file##*/}" <"$file"
done
finish passed
