case $1 in
firing) request=grow ;;
quiet) request=small ;;
esac
for time in 1 2 3; do
	wget -q -O /dev/null http://127.0.0.1/$request
	# Tables of 1 GiB are filled and unmapped.
	sleep 10
done
