case $1 in
firing)
	echo 33554432 >/proc/sys/kernel/shmmax
	echo 65536 >/proc/sys/kernel/shmall
	;;
esac
hold shm 24M
