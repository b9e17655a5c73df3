thp=/sys/kernel/mm/transparent_hugepage
case $1 in
firing)
	echo always >$thp/enabled
	echo 65536 >$thp/khugepaged/pages_to_scan
	echo 0 >$thp/khugepaged/alloc_sleep_millisecs
	echo 10 >$thp/khugepaged/scan_sleep_millisecs
	hold anon 300M late-thp
	;;
quiet) hold anon 300M late-thp && sleep 2 ;;
esac
