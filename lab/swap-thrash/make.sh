counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

case $1 in
firing)
	hold touch 220M && hold touch 220M || exit 1
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		in=$(counter pswpin) out=$(counter pswpout)
		sleep 1
		in=$(($(counter pswpin) - in)) out=$(($(counter pswpout) - out))
		echo "a second: $in pages in, $out out" | tee /run/why
		[ $in -gt 1000 ] && [ $out -gt 1000 ] && exit 0
	done
	exit 1
	;;
quiet)
	hold anon 150M || exit 1
	hold anon 220M name=passing || exit 1
	killall -9 passing
	# Until the averages of PSI have forgotten it.
	sleep 45
	grep SwapFree /proc/meminfo
	;;
esac
