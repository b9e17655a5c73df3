# A new redis-server stores values while another client waits for answers. What compaction has joined for
# one measurement is in pieces again before the next.
. ./memory
counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

case $2 in
fixed | reverted)
	whole_again && in_pieces || exit 1
	;;
esac
# Redis spares itself huge pages since its version 6.2; the database of the report did not.
redis-server --port 0 --unixsocket /run/redis --save "" --disable-thp no --daemonize yes >/dev/null || exit 1
stalls=$(counter compact_stall)
client /run/redis 15 8 || exit 1
echo "compact-stall $(($(counter compact_stall) - stalls)) times"
killall -9 redis-server
sleep 0.5
