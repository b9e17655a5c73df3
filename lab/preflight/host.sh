# host.sh DIRECTORY: makes a condition and asks on this machine, and leaves it as it was, also where its standard
# input ends before: that is when the program that started it has been killed. DIRECTORY has the scripts, bin/ (the
# programs), and gets keep/.
dir=$1
groups=/sys/fs/cgroup/memory/memwright-preflight-$$
PATH=$dir/bin:$PATH
pools="/proc/sys/vm/nr_hugepages /proc/sys/vm/nr_overcommit_hugepages"
were=$(cat $pools)

# asked: what guest/init gives to make.sh in a guest.
asked() {
	mark() { :; }
	frame() { cat >"$dir/$1"; }
	finish() {
		echo "$1" >"$dir/outcome"
		exit
	}
	mkdir "$dir/keep"
	cd "$dir" && . ./make.sh
}

emptied() {
	for group in "$groups"/*/*/ "$groups"/*/ "$groups"/; do
		[ -d "$group" ] || continue
		kill -9 $(cat "$group/cgroup.procs") 2>/dev/null
		rmdir "$group" 2>/dev/null || left=1
	done
}

exec 3<&0
mkdir "$groups" || exit
(echo 0 >"$groups/cgroup.procs" && asked) 3<&- </dev/null &
asker=$!
{ cat >/dev/null; kill -9 $asker; } <&3 2>/dev/null &
guard=$!
wait $asker
kill $guard 2>/dev/null
for try in $(seq 50); do
	left=
	emptied
	[ -z "$left" ] && break
	sleep 0.1
done
set -- $were
for pool in $pools; do
	echo "$1" >$pool
	shift
done
[ -z "$left" ]
