# One server with an etcd of its own; Patroni's loop is stopped for longer than it lasts.
ip link set lo up
chmod 777 "$DIR"
etcd --data-dir "$DIR/etcd" --enable-v2 --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 >"$DIR/etcd.log" 2>&1 &
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
cat >"$DIR/patroni.yml" <<CONF
scope: test
name: n1
restapi: {listen: "127.0.0.1:8008", connect_address: "127.0.0.1:8008"}
etcd3: {host: "127.0.0.1:2379"}
bootstrap:
  dcs: {ttl: 20, loop_wait: 2, retry_timeout: 3}
  initdb: [{encoding: UTF8}]
postgresql:
  listen: "127.0.0.1:5499"
  connect_address: "127.0.0.1:5499"
  data_dir: $DIR/data
  bin_dir: $bin
  authentication: {superuser: {username: postgres, password: x}, replication: {username: replicator, password: x}}
  parameters: {unix_socket_directories: $DIR}
CONF
HOME=$DIR setpriv --reuid=postgres --regid=postgres --init-groups patroni "$DIR/patroni.yml" >"$LOG" 2>&1 &
for _ in $(seq 900); do grep -q 'the leader with the lock' "$LOG" && break; sleep 0.1; done
sleep 2
pkill -STOP -f "patroni $DIR/patroni.yml"
sleep 8
pkill -CONT -f "patroni $DIR/patroni.yml"
sleep 6
