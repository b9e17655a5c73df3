# A table space is created, while the other server of the cluster listens to this one's heartbeat.
case $1 in
128k) write=128k ;;
1m) write=1M ;;
esac
mkdir -p /run/keep
tablespace /mnt/tablespace 900M $write &
creating=$!
# The kernel lowers its dirty limit in steps only: at first it is the one from before the database came.
[ "$2" = before ] && sleep 4
heartbeat 20 | standby "$2" 8 $creating /run/keep/series.csv
rm /mnt/tablespace
