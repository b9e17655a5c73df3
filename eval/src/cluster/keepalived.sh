# One router that is stopped.
ip link set lo up
ip link add v0 type veth peer name v1
ip link set v1 up
ip address add 10.9.0.1/24 dev v0
ip link set v0 up
cat >"$DIR/keepalived.conf" <<CONF
global_defs {
    router_id n1
}
vrrp_instance db {
    state MASTER
    interface v0
    virtual_router_id 7
    priority 100
    advert_int 1
    virtual_ipaddress {
        10.9.0.9/24
    }
}
CONF
mount -t tmpfs none /run
keepalived --dont-fork --log-console --log-detail --use-file "$DIR/keepalived.conf" >"$LOG" 2>&1 &
for _ in $(seq 300); do
    grep -q 'Entering MASTER STATE' "$LOG" && break
    sleep 0.1
done
sleep 2
pkill -STOP -f 'keepalived --dont-fork'
sleep 6
pkill -CONT -f 'keepalived --dont-fork'
sleep 4
