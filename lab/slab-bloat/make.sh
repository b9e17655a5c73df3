case $1 in
firing) hold messages 130M ;;
firing-ramfs)
	mkdir /files && mount -t ramfs ramfs /files && names files /files 360000
	;;
firing-tmpfs)
	mkdir /files && mount -t tmpfs -o nr_inodes=0 tmpfs /files && names files /files 240000
	;;
quiet-unused)
	mkdir /files && mount /dev/disk0 /files && names missing /files 1200000
	;;
esac
