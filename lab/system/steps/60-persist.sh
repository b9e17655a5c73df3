# fix --persist overrides what other files set, and iotune save keeps its table
. /mnt/lib.sh
echo 'vm.min_free_kbytes = 300000' >/etc/sysctl.d/90-app.conf
echo 'w /sys/kernel/mm/transparent_hugepage/defrag - - - - always' >/etc/tmpfiles.d/app.conf
sysctl -q --system
systemd-tmpfiles --create app.conf
quiet 'memwright check'
shown 'memwright fix min-free-too-high --persist'
ended 0
quiet 'memwright fix --persist'
quiet 'memwright changes'
quiet 'head -50 /etc/sysctl.d/zz-memwright.conf /etc/tmpfiles.d/00-memwright.conf'
ended 0
sysctl -n vm.min_free_kbytes >/mnt/state/min-free
[ "$(cat /mnt/state/min-free)" -lt 300000 ] || fail "not fixed"
cat /sys/kernel/mm/transparent_hugepage/defrag >/mnt/state/defrag
quiet 'memwright iotune set /srv/app discovered_direct_iosz=64k'
ended 0
quiet 'memwright iotune save'
ended 0
quiet 'memwright iotune show'
memwright incidents --json >/mnt/state/incidents.json
cp /proc/sys/kernel/random/boot_id /mnt/state/boot
echo "about to reboot"
exit 42
