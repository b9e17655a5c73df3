# A locked segment, made by a process on a CPU of node 0, which another process has filled.
taskset 1 hold anon 250M lock name=filler || exit 1
took -n 3 create taskset 1 hold anon 64M lock once
killall -9 filler
