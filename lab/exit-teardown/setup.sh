ip link set lo up || exit 1
if [ "$1" = firing ]; then mib=24576; else mib=16; fi
server $mib &
sleep 1
