# A probe and a receiver are configured while the recorder runs; a test message reaches the journal
. /mnt/lib.sh
mkdir -p /srv/app
dd if=/dev/zero of=/srv/app/data bs=1M count=48 status=none
cat >/etc/systemd/system/app.service <<'END'
[Service]
ExecStart=/mnt/bin/serve 8000 /srv/app/data 48 32
MemoryAccounting=yes
END
systemctl daemon-reload
systemctl start app
eventually 20 'curl -sf -m 20 http://127.0.0.1:8000/work/10/10/0/0'
shown 'cat >/etc/memwright/memwright.toml <<END
[[watch.probe]]
name = "app"
target = "http://127.0.0.1:8000/work/50/2000/0/0"
limit = "500ms"

[[notify]]
name = "oncall"
journal = true
END'
# A system call that the sandbox does not permit kills the process until the reboot: no step then hides it. SQLite's
# fchown may fail, which changes nothing.
for unit in memwright memwright-pool; do
	mkdir -p /run/systemd/system/$unit.service.d
	printf '[Service]\nSystemCallErrorNumber=kill\nSystemCallFilter=fchown\n' >/run/systemd/system/$unit.service.d/strict.conf
done
systemctl daemon-reload
systemctl restart memwright memwright-pool
quiet 'systemctl show -P SystemCallErrorNumber memwright; grep ^Seccomp: /proc/$(main_pid memwright)/status'
says '^Seccomp:.2'
pid=$(main_pid memwright)
log_from
shown 'systemctl reload memwright'
ended 0
eventually 20 'log_since | grep -q "watching app"'
quiet 'log_since'
[ "$(main_pid memwright)" = "$pid" ] || fail "the recorder was restarted"
shown 'memwright notify --test'
ended 0
quiet 'journalctl MESSAGE_ID=6f1c5b0e2f0a4d0f9c3e7a51d84b26ce -o json'
says '"MESSAGE"'
