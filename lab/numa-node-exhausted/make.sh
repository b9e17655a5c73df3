node0_free_kb() { awk '/MemFree/ { print $4 }' /sys/devices/system/node/node0/meminfo; }

echo 16384 >/proc/sys/vm/min_free_kbytes
case $1 in
firing)
	# In steps, for page tables and per-CPU lists take of the node too.
	for leave_mb in 64 24 14; do
		mb=$(($(node0_free_kb) / 1024 - leave_mb))
		[ $mb -gt 0 ] && hold anon ${mb}M lock node=0
	done
	sleep 1
	echo "node 0 has $(node0_free_kb) kB free" | tee /run/why
	[ "$(node0_free_kb)" -lt 24000 ]
	;;
quiet)
	hold anon 350M lock node=0 && hold anon 350M lock node=1
	;;
esac
