# After a restart of both services the incident is still there, and the recording goes on
. /mnt/lib.sh
quiet 'memwright incidents --json'
before=$(grep -c '"id"' <<<"$said")
[ "$before" -gt 0 ] || fail "no incident before"
log_from
started=$(now_s)
quiet 'systemctl restart memwright memwright-pool'
ended 0
echo "FIGURE restart $(since "$started")"
quiet 'systemctl is-active memwright memwright-pool'
ended 0
quiet 'memwright incidents --json'
[ "$(grep -c '"id"' <<<"$said")" -ge "$before" ] || fail "incidents are lost"
quiet 'log_since; log_since memwright-pool'
says_not 'failed|not permitted|denied'
quiet 'memwright watch --now'
ended 0
