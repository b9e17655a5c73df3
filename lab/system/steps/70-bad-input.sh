# External failures are logged in one line, and the recorder keeps running
. /mnt/lib.sh
config=/etc/memwright/memwright.toml
systemctl start app
eventually 90 'curl -sf -m 20 http://127.0.0.1:8000/work/10/10/0/0'
cp $config /run/good
pid=$(main_pid memwright)

goes_on() {
	[ "$(main_pid memwright)" = "$pid" ] || fail "the recorder was restarted"
	[ "$(systemctl show -P NRestarts memwright)" = 0 ] || fail "systemd restarted the recorder"
}
# wrong LINES_OF_WATCH: a configuration with these entries is loaded.
wrong() {
	log_from
	{ printf '%b' "$1"; sed '/^listen/d; /^\[watch\]$/d' /run/good; } >$config
	systemctl reload memwright || fail "reload"
}
# said_once PATTERN: within 30 s the log has one line that matches, and it is a line of its own.
said_once() {
	eventually 30 "log_since | grep -qE '$1'"
	said=$(log_since | grep -E "$1")
	printf '%s\n' "$said" | tee -a "$SHOWN"
	one_line
}

# A port that another program has.
wrong '[watch]\nlisten = "127.0.0.1:8000"\n'
said_once '127.0.0.1:8000: .*(retrying|choose another)'
goes_on

# A certificate that is none.
echo nonsense >/run/server.pem
printf 'tls_server_config:\n  cert_file: /run/server.pem\n  key_file: /run/server.pem\n' >/etc/memwright/web.yml
wrong '[watch]\nlisten = "127.0.0.1:9819"\nweb-config-file = "/etc/memwright/web.yml"\n'
said_once '/run/server.pem.*corrected'
eventually 30 'log_since | grep "metrics on 127.0.0.1:9819"'
curl -sk -m 20 https://127.0.0.1:9819/metrics && fail "served without a certificate"
goes_on
rm /etc/memwright/web.yml

# A webhook that accepts and never answers.
/mnt/bin/serve 8001 /srv/app/data 1 1 &
hung=$!
eventually 20 'curl -sf -m 20 http://127.0.0.1:8001/work/0/0/0/0'
kill -STOP $hung
wrong ''
printf '\n[[notify]]\nname = "hung"\nwebhook = "http://127.0.0.1:8001/"\ntimeout = "2s"\n' >>$config
systemctl reload memwright
shown 'memwright notify --test hung'
says '8001|hung'
log_from
curl -s -m 20 http://127.0.0.1:8000/fail/1
sleep 3
curl -s -m 20 http://127.0.0.1:8000/fail/0
eventually 60 'log_since | grep -q "notify hung"'
said_once 'notify hung'
goes_on
kill -KILL $hung

# A configuration that cannot be read, then one that is a directory.
log_from
echo 'limit = [' >>$config
systemctl reload memwright
said_once 'configuration not reloaded'
goes_on
rm $config
mkdir $config
log_from
systemctl reload memwright
said_once 'configuration not reloaded'
goes_on
rmdir $config
cp /run/good $config

# Scrapers that send nothing.
systemctl reload memwright
eventually 30 'curl -sf -m 20 http://127.0.0.1:9818/metrics'
for i in $(seq 400); do exec {fd}<>/dev/tcp/127.0.0.1/9818; done
started=$(now_s)
quiet 'curl -sf -m 10 http://127.0.0.1:9818/metrics | grep -c ^memwright'
ended 0
[ "$said" -gt 20 ] || fail "no metrics beside slow scrapers"
echo "FIGURE scrape-beside-400-slow-ones $(since "$started")"
goes_on
for ((; fd > 9; fd--)); do eval "exec $fd>&-"; done

# A full /var: it records again when there is room.
systemctl stop memwright.socket memwright
mount -t tmpfs -o size=24m,mode=750 tmpfs /var/lib/memwright
systemctl start memwright.socket memwright
pid=$(main_pid memwright)
log_from
eventually 60 'memwright watch --now'
dd if=/dev/zero of=/var/lib/memwright/filler bs=64k 2>/dev/null
said_once 'recording stopped: .*full'
goes_on
eventually 40 'curl -s -m 20 http://127.0.0.1:9818/metrics | grep -q "^memwright_recording_up 0"'
# What starts without room waits for it.
log_from
quiet 'systemctl restart memwright'
pid=$(main_pid memwright)
said_once 'not recording yet: .*full'
sleep 12
[ "$(log_since | grep -c 'not recording yet')" = 1 ] || fail "said over and over"
rm /var/lib/memwright/filler
eventually 60 'memwright watch --now'
goes_on
systemctl stop memwright.socket memwright
umount /var/lib/memwright

# A recording of a newer version, after a downgrade.
cp /var/lib/memwright/recording.db /mnt/state/
sqlite3 /var/lib/memwright/recording.db 'PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)'
log_from
systemctl start memwright.socket memwright
pid=$(main_pid memwright)
said_once 'format 99'
goes_on
quiet 'ls /var/lib/memwright'
says 'newer'
eventually 60 'memwright watch --now'
