meminfo_kb() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }

size_kb=$(($(meminfo_kb CommitLimit) * 94 / 100 - $(meminfo_kb Committed_AS)))
case $1 in
firing) echo 2 >/proc/sys/vm/overcommit_memory ;;
esac
hold reserve ${size_kb}K
