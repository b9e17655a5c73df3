case $1 in
firing) poison hard 3 ;;
firing-soft) poison soft 4 ;;
esac || exit 1
grep HardwareCorrupted /proc/meminfo
true
