# large: whether a process has mapped all of its memory, by the size of its page tables.
large() { awk '/^VmPTE/ { exit $2 < 45000 }' "/proc/$1/status"; }

wait_until_large() {
	for try in $(seq 100); do
		large "$1" && return
		sleep 0.5
	done
	echo "process $1 did not become large: $(grep VmPTE "/proc/$1/status")" >/run/why
	exit 1
}

# The worker is the server's only child, and the younger of both.
worker() { pidof server | tr ' ' '\n' | sort -n | tail -n 1; }

case $1 in
firing)
	for time in 1 2 3; do
		wait_until_large "$(worker)"
		wget -q -O /dev/null http://127.0.0.1/restart
		sleep 1
	done
	;;
quiet)
	for time in 1 2 3; do
		wget -q -O /dev/null http://127.0.0.1/restart
		sleep 1
	done
	;;
decoy)
	other 24576 &
	other=$!
	wait_until_large $other
	holdlock 4 &
	sleep 0.3
	wget -q -O /dev/null http://127.0.0.1/lock &
	sleep 0.5
	kill -9 $other
	sleep 4
	;;
esac
