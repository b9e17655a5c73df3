# The programs share one session, which autogroup would give no more than a share of its own.
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
for hog in 1 2 3 4 5 6; do
	while :; do :; done &
done
sleep 1
