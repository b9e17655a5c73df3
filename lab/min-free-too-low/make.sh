hold anon 200M || exit 1
case $1 in
firing) echo 128 >/proc/sys/vm/min_free_kbytes ;;
esac
