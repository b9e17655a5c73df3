# An emulated guest needs longer than `check` takes to count as many mappings as the default limit permits.
limit=1000
[ "$1" = quiet-raised ] && limit=262144
echo $limit >/proc/sys/vm/max_map_count || exit 1
case $1 in
firing) mappings 950 ;;
firing-6_1) mappings 990 ;;
quiet) mappings 600 && mappings 600 && mappings 600 ;;
quiet-raised) mappings 62000 ;;
esac || exit 1
grep vm_area_struct /proc/slabinfo
