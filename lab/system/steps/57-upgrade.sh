# An upgrade keeps configuration, recordings and leased memory: the pool server goes on, and restarts when it suits
. /mnt/lib.sh
cd /root
quiet 'apt-get install -qq --allow-downgrades /mnt/previous/memwright_*.deb'
ended 0
systemctl restart memwright-pool
eventually 30 'systemctl is-active memwright memwright-pool'
memwright pool create app --size 64M || fail "no pool"
systemd-run --quiet --unit=tenant -p StandardOutput=file:/run/tenant \
	memwright run --pool app --pool-strict -- /mnt/bin/lease 48
eventually 60 'grep -q ready /run/tenant'
intact() {
	local before=$(grep -c . /run/tenant)
	systemctl kill --signal=USR1 --kill-who=all tenant
	eventually 30 "[ \$(grep -c . /run/tenant) -gt $before ]"
	[ "$(tail -n 1 /run/tenant)" = intact ] || fail "the leased memory has changed"
}
leased() { memwright pool list --json | tr -d ' \n' | grep -o '"leased[a-z_]*":[0-9]*'; }
tenant=$(main_pid tenant)
pool=$(main_pid memwright-pool)
recorder=$(main_pid memwright)
quiet 'memwright pool list'
before=$(leased)
[ -n "$before" ] || fail "nothing is leased"
echo '# of the administrator' >>/etc/memwright/memwright.toml
configuration=$(cksum /etc/memwright/memwright.toml)
memwright incidents --json >/run/incidents
log_from
shown "dpkg-query -W memwright"
shown 'apt-get install -qq ./memwright_*.deb'
ended 0
says_not '[Ww]arning|[Ff]ailed|[Cc]ould not|error' "the upgrade complains"
shown "dpkg-query -W memwright"
says_not previous
quiet 'systemctl is-active memwright memwright-pool memwright.socket'
ended 0
[ "$(main_pid memwright-pool)" = "$pool" ] || fail "the pool server was restarted"
[ "$(main_pid memwright)" != "$recorder" ] || fail "the recorder is still the old one"
[ "$(cksum /etc/memwright/memwright.toml)" = "$configuration" ] || fail "the configuration has changed"
quiet 'memwright incidents --json'
[ "$(grep -c '"id"' <<<"$said")" -ge "$(grep -c '"id"' /run/incidents)" ] || fail "incidents are lost"
intact
quiet 'memwright pool list'
[ "$(leased)" = "$before" ] || fail "not as much is leased as before"
# When it suits.
quiet 'systemctl restart memwright-pool'
ended 0
[ "$(main_pid memwright-pool)" != "$pool" ] || fail "the pool server was not restarted"
intact
[ "$(main_pid tenant)" = "$tenant" ] || fail "the program was restarted"
quiet 'memwright pool list; memwright pool list --json'
eventually 30 '[ "$(leased)" = "$before" ]'
eventually 30 'curl -sf -m 20 http://127.0.0.1:9818/metrics'
quiet 'log_since; log_since memwright-pool'
says_not 'failed|not permitted|denied'
systemctl stop tenant
quiet 'memwright pool remove app'
ended 0
