case $1 in
firing*) backends 200 256 ;;
quiet)
	echo 128 >/proc/sys/vm/nr_hugepages
	backends 200 256 huge
	;;
quiet-few) backends 20 256 ;;
esac || exit 1
grep PageTables /proc/meminfo
