file=/proc/sys/vm/compact_memory
[ "$1" = quiet ] && file=/proc/sys/vm/overcommit_memory
moved() { awk '$1 == "pgmigrate_success" { print $2 }' /proc/vmstat; }

before=$(moved)
sh -c 'echo $$ >/sys/fs/cgroup/job/cgroup.procs; while :; do echo 1 >'$file'; done' &
for time in 1 2 3; do
	sleep 8
	[ "$1" = decoy ] && touch /run/sleep
done
sleep 3
kill $!
echo "$(($(moved) - before)) pages moved"
