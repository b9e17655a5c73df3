# doctor says in one screen what is missing, and its commands turn it on
. /mnt/lib.sh
shown 'memwright doctor'
[ "$(wc -l <<<"$said")" -le 24 ] || fail "longer than a screen"
quiet 'memwright doctor --json'
# What a command can turn on; the rest needs another kernel or machine.
sed -n 's/^ *"remedy": "\(.*\)",\{0,1\}$/\1/p' <<<"$said" | grep -E '^(echo|mount|sysctl|systemctl|sudo)' >/run/remedies
while read -r remedy; do
	quiet "$remedy"
	ended 0
done </run/remedies
quiet 'memwright doctor'
says_not '^\* (delay-accounting|tracefs|perf-events|kernel-symbols|pressure|recorder|recording|pool-server|configuration)'
