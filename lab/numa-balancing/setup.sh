ip link set lo up || exit 1
# The memory is on the node of the first CPU.
mib=400
[ "$1" = decoy ] && mib=160
taskset 1 serve 80 $mib &
echo $! >/run/80.pid
if [ "$1" = decoy ]; then
	taskset 1 serve 81 $mib &
	echo $! >/run/81.pid
fi
for try in $(seq 60); do
	wget -q -O /dev/null http://127.0.0.1/ && exit 0
	sleep 0.5
done
echo "no answer" >/run/why
exit 1
