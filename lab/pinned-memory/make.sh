case $1 in
firing*) pin 128 ;;
quiet) hold anon 128M lock && hold fragment 16M every=1 ;;
quiet-released)
	pin 128 && killall -9 pin || exit 1
	# The kernel unpins the buffers of a ring some time after its process.
	for try in $(seq 30); do
		awk '$1 ~ /^nr_foll_pin/ { n[$1] = $2 }
			END { exit n["nr_foll_pin_acquired"] - n["nr_foll_pin_released"] > 1000 }' /proc/vmstat && exit 0
		sleep 1
	done
	exit 1
	;;
esac || exit 1
grep foll_pin /proc/vmstat
