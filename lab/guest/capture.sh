# The role `capture`: the case makes its condition, and memwright captures what the kernel says then.
[ -f setup.sh ] && script setup.sh
script make.sh
memwright capture -o /run/tree.tar.zst || finish "failed: memwright capture ended with $?"
# The load has done its work; what packs the result need not fight with it.
kill -9 -1
frame tree </run/tree.tar.zst
finish passed
