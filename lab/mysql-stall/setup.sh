# As in the report: huge pages for everybody, and compaction in the fault. What the kernel does against
# fragmentation in the background is off: it would undo some of it between two measurements.
thp=/sys/kernel/mm/transparent_hugepage
echo always >$thp/enabled
echo always >$thp/defrag
echo 0 >/proc/sys/vm/compaction_proactiveness
echo 0 >/proc/sys/vm/watermark_boost_factor
# The emulator is slow where the guest touches a page, or runs a program, for the first time.
. ./memory
hold anon $(($(meminfo_kb MemFree) - 102400))K once || exit 1
sh ./measure.sh "$1" before >/dev/null
