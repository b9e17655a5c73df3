meminfo_kb() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }

# reserve PERCENT: a process reserves memory up to that share of the commit limit.
reserve() { hold reserve $(($(meminfo_kb CommitLimit) * $1 / 100 - $(meminfo_kb Committed_AS)))K; }

case $1 in
firing) echo 2 >/proc/sys/vm/overcommit_memory && reserve 94 ;;
firing-low-limit)
	echo 30 >/proc/sys/vm/overcommit_ratio
	echo 2 >/proc/sys/vm/overcommit_memory
	;;
quiet) reserve 94 ;;
esac
