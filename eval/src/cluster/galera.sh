# A cluster of one, which is stopped.
ip link set lo up
mkdir "$DIR/data"
mariadb-install-db --no-defaults --user=root --datadir="$DIR/data" --auth-root-authentication-method=normal >"$DIR/install.log" 2>&1
mariadbd --no-defaults --user=root --datadir="$DIR/data" --socket="$DIR/socket" --port=3301 --bind-address=127.0.0.1 \
    --binlog-format=ROW --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so \
    --wsrep-cluster-address=gcomm:// --wsrep-node-address=127.0.0.1:4501 \
    --wsrep-provider-options="gmcast.listen_addr=tcp://127.0.0.1:4501;ist.recv_addr=127.0.0.1:4601" >"$LOG" 2>&1 &
for _ in $(seq 600); do
    grep -q 'Synchronized with group, ready for connections' "$LOG" && break
    sleep 0.1
done
sleep 2
kill -STOP $!
sleep 4
kill -CONT $!
sleep 4
