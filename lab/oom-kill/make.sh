case $1 in
firing)
	# Two of them: a single mapping larger than RAM would be refused at once.
	hold anon 200M
	hold anon 200M
	sleep 2
	grep '^oom_kill ' /proc/vmstat | tee /run/why
	! grep -q '^oom_kill 0$' /proc/vmstat
	;;
quiet) hold anon 100M ;;
esac
