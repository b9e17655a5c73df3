# The variant's name ends in the mode.
echo "${1##*-}" >/proc/sys/vm/zone_reclaim_mode
