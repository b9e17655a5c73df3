# The role `watch`: the recorder runs while the condition is created and its effect is measured. The host
# judges its verdicts on the stalls.
#
# $PROBES are the probes, a line each, and $LIMIT their limit. With $SILENT the recorder has a receiver of
# notifications, which are sent as a frame.

# The recorder compares a stall with the time before it.
BASELINE_S=8
RECORDING=/run/recording.db

hostname lab
mark "at setup"
[ -f setup.sh ] && script setup.sh
while read -r probe; do
	[ -n "$probe" ] && set -- "$@" --probe "$probe"
done <<END
$PROBES
END
if [ -n "$SILENT" ]; then
	: >/run/notifications
	printf '[[notify]]\ncommand = ["sh", "-c", "cat >>/run/notifications"]\nopen = true\n' >/run/watch.toml
	set -- "$@" --config /run/watch.toml
fi
mark "at baseline"
memwright watch --recording $RECORDING --limit "$LIMIT" "$@" 2>/run/watch.log &
watcher=$!
# As memwright.service has it.
echo -500 >/proc/$watcher/oom_score_adj
sleep $BASELINE_S
mark "at make"
script make.sh
mark "at during/measure"
[ -f measure.sh ] && sh ./measure.sh "$VARIANT" during >/run/out
mark "at report"
sleep 2
kill -TERM $watcher
wait $watcher
echo $? | frame watch.exit
frame keep/watch.log </run/watch.log
frame_kept
memwright incidents --recording $RECORDING --json >/run/incidents
frame incidents </run/incidents
[ -n "$SILENT" ] && frame notifications </run/notifications
# What is judged is the longest stall. The last one may have been cut short by the end of the recorder.
longest=$(awk '/"id":/ { gsub(/[^0-9]/, ""); id = $0 }
	/"started_unix_ms":/ { gsub(/[^0-9]/, ""); started = $0 }
	/"ended_unix_ms":/ { gsub(/[^0-9]/, ""); if ($0 - started >= most) { most = $0 - started; longest = id } }
	END { print longest }' /run/incidents)
memwright report "$longest" --recording $RECORDING --format json >/run/incident.json 2>/dev/null &&
	gzip -c /run/incident.json | frame worst.json.gz &&
	memwright report "$longest" --recording $RECORDING -o /run/report.html 2>/dev/null &&
	gzip -c /run/report.html | frame keep/report.html.gz
finish passed
