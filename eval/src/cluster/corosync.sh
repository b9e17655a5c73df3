# Two nodes on a virtual network; one is stopped for longer than its token allows.
for n in 1 2; do
    mkdir -p "$DIR/n$n"
    cat >"$DIR/n$n.conf" <<CONF
totem {
  version: 2
  cluster_name: test
  transport: knet
  crypto_cipher: none
  crypto_hash: none
  token: 1000
}
nodelist {
  node {
    ring0_addr: 10.9.0.1
    name: n1
    nodeid: 1
  }
  node {
    ring0_addr: 10.9.0.2
    name: n2
    nodeid: 2
  }
}
quorum {
  provider: corosync_votequorum
  two_node: 1
}
system {
  state_dir: $DIR/n$n
}
logging {
  to_stderr: no
  to_syslog: no
  to_logfile: yes
  logfile: $DIR/n$n.log
  timestamp: hires
}
CONF
    # Sockets and shared memory of its own.
    unshare --net --mount sh -c '
        echo $$ >"$DIR/pid'$n'"
        until [ -e "$DIR/linked" ]; do sleep 0.05; done
        mount -t tmpfs none /run
        mount -t tmpfs none /dev/shm
        exec corosync -f -c "$DIR/n'$n'.conf"' &
done
until [ -s "$DIR/pid1" ] && [ -s "$DIR/pid2" ]; do sleep 0.05; done
one=$(cat "$DIR/pid1") two=$(cat "$DIR/pid2")
ip link add veth1 netns "$one" type veth peer name veth2 netns "$two"
for n in 1 2; do
    pid=$(cat "$DIR/pid$n")
    nsenter --net --target "$pid" ip link set lo up
    nsenter --net --target "$pid" ip address add 10.9.0.$n/24 dev veth$n
    nsenter --net --target "$pid" ip link set veth$n up
done
touch "$DIR/linked"
for _ in $(seq 300); do
    grep -q 'Members\[2\]' "$DIR/n1.log" 2>/dev/null && break
    sleep 0.1
done
sleep 2
kill -STOP "$one"
sleep 2.5
kill -CONT "$one"
ln -s n1.log "$LOG"
sleep 3
