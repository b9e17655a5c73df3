# What is set once on a node, before any job.
case $1 in
limit-overcommit)
	echo 50 >/proc/sys/vm/overcommit_ratio
	echo 2 >/proc/sys/vm/overcommit_memory
	;;
proactive) echo 100 >/proc/sys/vm/compaction_proactiveness ;;
watermark-scale) echo 500 >/proc/sys/vm/watermark_scale_factor ;;
defrag-mode*)
	echo 1 >/proc/sys/vm/defrag_mode
	[ "$1" = defrag-mode ] || echo 500 >/proc/sys/vm/watermark_scale_factor
	;;
min-ttl)
	echo y >/sys/kernel/mm/lru_gen/enabled
	echo 1000 >/sys/kernel/mm/lru_gen/min_ttl_ms
	;;
min-free) echo 32768 >/proc/sys/vm/min_free_kbytes ;;
reserve)
	. ./sizes
	echo $RESERVE_PAGES >/proc/sys/vm/nr_hugepages
	;;
esac
