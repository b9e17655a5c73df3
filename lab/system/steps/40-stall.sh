# A service that stalls is an incident with the right cause, and the person on call is notified
. /mnt/lib.sh
# What a stall is compared with.
sleep 12
shown 'systemctl set-property --runtime app MemoryHigh=24M'
stalled=$(now_s)
sleep 6
systemctl set-property --runtime app MemoryHigh=infinity
oncall='journalctl MESSAGE_ID=6f1c5b0e2f0a4d0f9c3e7a51d84b26ce PROBE=app CAUSE=cgroup-throttled'
eventually 60 'memwright incidents | grep -q cgroup-throttled'
echo "FIGURE listed-after-the-end $(awk "BEGIN { print $(since "$stalled") - 6 }")"
# An open incident's cause is provisional; the person on call is notified when it is over.
eventually 90 "$oncall -o json | grep -q INCIDENT"
echo "FIGURE told-after-the-end $(awk "BEGIN { print $(since "$stalled") - 6 }")"
shown 'memwright incidents'
id=$($oncall -o json | tail -n 1 | sed 's/.*"INCIDENT":"\([0-9]*\)".*/\1/')
shown "memwright report $id"
ended 0
says '^critical cgroup-throttled: cgroup /system.slice/app.service'
shown "$oncall --no-pager -o cat"
says 'cgroup-throttled'
quiet "$oncall -o json | tail -1"
for field in INCIDENT CAUSE PROBE STALL_USEC MESSAGE PRIORITY; do says "\"$field\":"; done
echo "$id" >/mnt/state/incident
