# The role `capture`: the case creates its condition, and memwright captures the state of the kernel.
[ -f setup.sh ] && script setup.sh
script make.sh
memwright capture -o /run/tree.tar.zst || finish "failed: memwright capture exited with $?"
# The load is no longer needed; without it the result is packed faster.
kill -9 -1
frame tree </run/tree.tar.zst
finish passed
