# A purge leaves nothing but the pool server's user, and the settings in force until the next boot
. /mnt/lib.sh
min_free=$(sysctl -n vm.min_free_kbytes)
shown 'apt-get purge -qq memwright'
ended 0
says_not '[Ww]arning|[Ff]ailed|[Cc]ould not|error' "the purge complains"
# Whatever connects now starts nothing.
curl -s -m 2 http://127.0.0.1:9818/metrics && fail "the socket still listens"
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /mnt -o -path /var/log -o -path /var/lib/dpkg -o -path /var/cache -o -path /root \) -prune -o \
	-iname '*memwright*' -print)
[ -z "$left" ] || fail "left: $left"
for folder in /run/memwright /run/memwright-pool; do [ ! -e $folder ] || fail "left: $folder"; done
quiet 'systemctl list-units --all --no-legend "memwright*"'
[ -z "$said" ] || fail "a unit is left"
quiet 'systemctl --failed --no-legend'
[ -z "$said" ] || fail "a unit failed"
quiet 'pgrep -a memwright || echo none'
says '^none$' "a process is left"
quiet 'getent passwd memwright-pool'
ended 0
# What fix --persist wrote is gone; the value stays until a boot, and memwright undo would have reverted it.
[ "$(sysctl -n vm.min_free_kbytes)" = "$min_free" ] || fail "the purge changed a setting"
sysctl -q --system
[ "$(sysctl -n vm.min_free_kbytes)" = 300000 ] || fail "the next boot would not have the administrator's value"
