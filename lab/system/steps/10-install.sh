# The package installs under the running systemd, and both services start
. /mnt/lib.sh
cp /mnt/packages/*.deb /root
mkdir -p /mnt/state
cd /root
started=$(now_s)
shown 'ls -sh *.deb'
shown 'apt-get install -qq ./memwright_*.deb'
ended 0
says_not '[Ww]arning|[Ff]ailed|[Cc]ould not|error' "the installation complains"
took=$(since "$started")
echo "installed in $took s"
shown 'systemctl is-active memwright memwright-pool'
ended 0
started=$(now_s)
shown 'memwright check'
verdict=$(since "$started")
says ' available '
echo "FIGURE install $took"
echo "FIGURE verdict $verdict"
awk "BEGIN { exit !($verdict <= 10) }" || fail "the first verdict took $verdict s"
shown 'for unit in memwright memwright-pool; do systemd-analyze security --no-pager $unit | tail -n 1; done'
says 'memwright.service: [0-3][.]' "the recorder is too exposed"
says 'memwright-pool.service: [0-1][.]' "the pool server is too exposed"
[ ! -e /etc/systemd/system/sockets.target.wants/memwright.socket ] || fail "the socket is enabled"
quiet 'systemctl is-active memwright.socket'
ended 3
quiet 'journalctl -u memwright -u memwright-pool -o cat'
says_not 'Failed|Permission denied|Operation not permitted|Read-only'
quiet 'systemctl --failed --no-legend'
[ -z "$said" ] || fail "a unit failed"
