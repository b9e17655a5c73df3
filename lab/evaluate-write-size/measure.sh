# The variant is cached-SIZE or direct-SIZE. The file is synced at the end, so that the time is that of the
# disk either way.
TOTAL_MIB=128
BEAT_MIB=24

counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

size=${1#*-}
case $size in
16k) count=$((TOTAL_MIB * 64)) ;;
128k) count=$((TOTAL_MIB * 8)) ;;
1M) count=$TOTAL_MIB ;;
esac
flags=
[ "${1%%-*}" = direct ] && flags=oflag=direct

scanned=$(counter pgscan_direct)
beat $BEAT_MIB dd if=/dev/zero of=/mnt/data bs="$size" count=$count conv=fsync $flags
echo "scanned-direct $(($(counter pgscan_direct) - scanned)) pages"
