groups=/sys/fs/cgroup
ip link set lo up && mkdir $groups/job && echo +cpu >$groups/cgroup.subtree_control || exit 1
echo "20000 1000000" >$groups/job/cpu.max || exit 1
serve 128 &
for try in $(seq 60); do
	wget -q -O /dev/null http://127.0.0.1/ && exit 0
	sleep 0.5
done
echo "no answer" >/run/why
exit 1
