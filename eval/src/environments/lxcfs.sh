fs=$(mktemp -d); log=$(mktemp)
lxcfs -f --pidfile="$log.pid" "$fs" >"$log" 2>&1 & lxcfs=$!
trap 'kill $lxcfs; wait $lxcfs || :; umount -l "$fs" 2>/dev/null || :; rm -rf "$log" "$log.pid"; rmdir "$fs"' EXIT
for try in $(seq 50); do [ -e "$fs/proc/meminfo" ] && break; sleep 0.1; done
# It reads the host's files itself, and must not find its own there.
unshare --mount --propagation private sh -ec '
	for file in meminfo swaps uptime; do mount --bind "$0/proc/$file" /proc/$file; done
	exec "$@"' "$fs" "$@"
