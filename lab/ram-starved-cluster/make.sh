# As databases are often tuned. Nothing happens until somebody writes more than the disk takes.
echo 90 >/proc/sys/vm/dirty_ratio
echo 85 >/proc/sys/vm/dirty_background_ratio
