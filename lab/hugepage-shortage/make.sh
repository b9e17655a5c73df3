# Booting with more 2 MiB pages than one node's RAM leaves no memory to boot with; with 1 GiB pages,
# or on one node of two, enough is left.
case $1 in
firing-runtime)
	hold fragment 700M every=24 || exit 1
	echo 400 >/proc/sys/vm/nr_hugepages
	;;
quiet) hold hugetlb 16M || exit 1 ;;
esac
grep HugePages_Total /proc/meminfo
