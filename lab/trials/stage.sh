# stage.sh DIRECTORY PREFIX CGROUP: the part of host.sh in namespaces of its own. Files that it changes are in a tmpfs above
# the host's.
dir=$1
export PREFIX=$2 CGROUP=$3 PATH=/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | sed 's/.* //')
set -e
mount --make-rprivate /
mount -t tmpfs -o size=256M tmpfs "$dir/stage"
mkdir "$dir/stage/upper" "$dir/stage/work" "$dir/stage/root"
mount -t overlay -o "lowerdir=/,upperdir=$dir/stage/upper,workdir=$dir/stage/work" overlay "$dir/stage/root"
cd "$dir/stage/root"
for folder in proc sys dev; do mount --rbind /$folder $folder; done
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount -t debugfs debugfs sys/kernel/debug
mount -t tracefs tracefs sys/kernel/tracing
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
mkdir -p lab run/keep svc
cp "$dir"/lab/* lab
mkdir lab/bin
touch run/image
mount --bind "$dir/data" run/image
mount --bind "$dir/bin" lab/bin
mount --bind "$dir/keep" run/keep
mount --bind "$dir/svc" svc
# All that is started here ends with the group.
. "$dir/lab/groups"
group driver
for group in $(dirs driver); do echo $$ >"$group/cgroup.procs"; done
exec chroot . sh -c '
mark() { echo "$1"; }
finish() { echo "$1" >/run/keep/outcome; exit 1; }
cd /lab
set +e
. ./make.sh
echo passed >/run/keep/outcome'
