took -n 3 save dd if=/dev/zero of=/mnt/saved bs=64k count=16 conv=fsync
