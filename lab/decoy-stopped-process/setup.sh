mkfifo /run/question /run/answer && hold anon 100M || exit 1
while :; do
	read -r question </run/question && echo "$question" >/run/answer
done &
echo $! >/run/server
