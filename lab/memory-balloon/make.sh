# The size in pages of 4 KiB.
taken() { awk '$1 == "balloon_inflate" { n += $2 } $1 == "balloon_deflate" { n -= $2 } END { print n }' /proc/vmstat; }

want=$((600 * 256))
[ "$1" = quiet ] && want=$((64 * 256))
for try in $(seq 60); do
	[ "$(taken)" -ge $want ] && break
	sleep 1
done
echo "the balloon has $(taken) of $want pages" | tee /run/why
[ "$(taken)" -ge $want ] || exit 1
case $1 in
firing-scarce) hold anon 200M ;;
quiet-returned) rmmod virtio_balloon && [ "$(taken)" = 0 ] ;;
esac
