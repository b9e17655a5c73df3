# A service writes its log before it answers.
dd if=/dev/zero of=/mnt/answer bs=64k count=4 conv=fsync 2>/dev/null
