for hog in 1 2 3 4 5 6; do
	while :; do :; done &
done
sleep 1
