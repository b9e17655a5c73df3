# Three members; the leader is stopped, and is late when it goes on.
ip link set lo up
cluster=
for n in 1 2 3; do cluster=$cluster,n$n=http://127.0.0.1:238$n; done
for n in 1 2 3; do
    etcd --name n$n --data-dir "$DIR/n$n" --listen-peer-urls http://127.0.0.1:238$n --initial-advertise-peer-urls \
        http://127.0.0.1:238$n --listen-client-urls http://127.0.0.1:237$n --advertise-client-urls http://127.0.0.1:237$n \
        --initial-cluster "${cluster#,}" --logger zap >"$DIR/n$n.log" 2>&1 &
    echo $! >"$DIR/n$n.pid"
done
leader=
for _ in $(seq 300); do
    for n in 1 2 3; do grep -q 'became leader at term' "$DIR/n$n.log" && leader=n$n; done
    [ -n "$leader" ] && grep -q 'serving client traffic' "$DIR/$leader.log" && break
    sleep 0.1
done
sleep 1
ln -s "$leader.log" "$LOG"
# Less than an election takes: it stays the leader.
for _ in $(seq 5); do
    kill -STOP "$(cat "$DIR/$leader.pid")"
    sleep 0.6
    kill -CONT "$(cat "$DIR/$leader.pid")"
    sleep 1
    grep -q 'leader failed to send out heartbeat' "$LOG" && break
done
