# host.sh DIRECTORY PREFIX CGROUP: plays on the host, and leaves it as it was, also where its standard input ends before
# they do: that is when the program that started it has been killed. DIRECTORY has lab/ (the scripts), bin/ (the programs),
# the image `data`, and gets keep/.
dir=$1 PREFIX=$2 CGROUP=$3
# What version 2 hands to its children.
for version2 in /sys/fs/cgroup /sys/fs/cgroup/unified; do
	[ ! -e $version2/cgroup.subtree_control ] || { before=$(cat $version2/cgroup.subtree_control) && break; }
done
# The standard input of a command in the background is /dev/null.
exec 3<&0
mkdir -p "$dir/keep" "$dir/stage"
unshare --mount --net sh "$dir/lab/stage.sh" "$dir" "$PREFIX" "$CGROUP" 3<&- </dev/null &
stage=$!
# Its time has passed, or it is interrupted: what follows is still to be done.
trap 'kill -9 $stage' HUP INT TERM
{ cat >/dev/null; kill -9 $stage; } <&3 2>/dev/null &
guard=$!
wait $stage
kill $guard 2>/dev/null
rm -f "$dir/data"
# The last process of the mount namespace unmounts the disk, and waits for a server that it has been itself.
[ ! -s "$dir/keep/fuse" ] || unshare --mount sh -c 'mount -t fusectl none "$1/stage" &&
	echo 1 >"$1/stage/$(cat "$1/keep/fuse")/abort"' sh "$dir"
for try in $(seq 50); do
	left=
	for group in /sys/fs/cgroup/*/$PREFIX*/ /sys/fs/cgroup/*/$PREFIX /sys/fs/cgroup/$PREFIX*/ /sys/fs/cgroup/$PREFIX; do
		[ -d "$group" ] || continue
		[ ! -e "$group/freezer.state" ] || echo THAWED >"$group/freezer.state"
		kill -9 $(cat "$group/cgroup.procs") 2>/dev/null
		rmdir "$group" 2>/dev/null || left=1
	done
	[ -z "$left" ] && break
	sleep 0.1
done
for controller in cpu io memory; do
	case " $before " in
	*" $controller "*) ;;
	*) echo "-$controller" 2>/dev/null >$version2/cgroup.subtree_control ;;
	esac
done
[ -z "$left" ]
