# The variant is ENABLED-DEFRAG, in the kernel's words but for the + of defer+madvise.
thp=/sys/kernel/mm/transparent_hugepage
defrag=${1#*-}
[ "$defrag" = defer-madvise ] && defrag=defer+madvise
echo "${1%%-*}" >$thp/enabled || exit 1
echo "$defrag" >$thp/defrag || exit 1
