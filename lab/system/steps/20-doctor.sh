# doctor says in one screen what is missing, and its commands turn it on
. /mnt/lib.sh
shown 'memwright doctor'
[ "$(wc -l <<<"$said")" -le 24 ] || fail "longer than a screen"
quiet 'memwright doctor --json'
