# Asks for memory of ten sizes, takes each, and counts how often the answer was wrong: "yes" and it was
# not to be had, or "no" and it was. "slowly" is right either way, and counted as unsure.
case $1:$2 in
firing-*:during | quiet-unused:during) ;;
*) exit 0 ;;
esac
available=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
mkdir -p /run/keep
wrong=0 unsure=0
for percent in 105 100 95 90 85 80 75 70 65 55; do
	# The last size has used up what was unused; the small ones do not need it.
	[ "$1" = quiet-unused ] && [ $percent -ge 90 ] && names missing /files 1200000
	size=$((available * percent / 100))
	answer=$(memwright check --for ${size}M,lock | sed -n '1s/:.*//p')
	if hold anon ${size}M lock once 2>/dev/null; then had=yes; else had=no; fi
	case $answer:$had in
	yes:yes | no:no) ;;
	slowly:*) unsure=$((unsure + 1)) ;;
	*) wrong=$((wrong + 1)) ;;
	esac
	echo "$percent% ${size}M: $answer, taken: $had" >>/run/keep/sizes
done
echo "wrong $wrong sizes"
echo "unsure $unsure sizes"
cat /run/keep/sizes >/dev/kmsg
