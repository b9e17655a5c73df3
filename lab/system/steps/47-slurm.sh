# A node that a job has fragmented leaves the queue within an interval, is mended, and takes the next job
. /mnt/lib.sh
INTERVAL_S=10
ip link set lo up
ip address add 192.0.2.1/32 dev lo
echo '192.0.2.1 node1' >>/etc/hosts
cat >/etc/slurm/slurm.conf <<END
ClusterName=memwright
SlurmctldHost=db1(192.0.2.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/spool
ReturnToService=1
HealthCheckProgram=/etc/slurm/memwright-health
HealthCheckInterval=$INTERVAL_S
HealthCheckNodeState=ANY
NodeName=node1 NodeHostname=db1 NodeAddr=192.0.2.1 CPUs=1 RealMemory=100
PartitionName=all Nodes=node1 Default=YES State=UP
END
cat >/etc/slurm/memwright-health <<'END'
#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
exec memwright slurm health --after 0s --severity note --drain-on fragmented-node --make-room 256M,huge=thp >>/mnt/log/health 2>&1
END
chmod 755 /etc/slurm/memwright-health
mkdir -p /var/lib/slurm/state
# slurmctld and slurmd each with a name of their own for the host.
systemctl start munge slurmctld || fail "slurmctld does not start"
sed -i 's/^ExecStart=.*/& -N node1/' /lib/systemd/system/slurmd.service
systemctl daemon-reload
systemctl start slurmd || fail "slurmd does not start"

node() { scontrol show node node1; }
in_state() { node | grep -q "State=$1 "; }
eventually 60 'in_state IDLE'

# A healthy node stays in the queue.
runs() { grep -c '^node node1: ' /mnt/log/health; }
before=$(runs)
eventually 60 "[ \$(runs) -ge $((before + 2)) ]"
in_state IDLE || fail "a healthy node was drained: $(node)"
shown 'sinfo --Node --long'

# A job that thrashes: what a service has taken meanwhile lies between its pages, and stays when it ends.
cat >/mnt/log/job <<'END'
#!/bin/sh
setsid hold strewn 640M every=2 name=service </dev/null >/dev/null 2>&1
touch /mnt/log/thrashed
sleep 20
END
chmod 755 /mnt/log/job
srun --job-name=thrash /mnt/log/job &
job=$!
eventually 60 '[ -e /mnt/log/thrashed ]'
sick=$(now_s)
eventually 10 '! memwright check --only fragmented-node'
echo "FIGURE found-after $(since "$sick")"
eventually 60 'in_state ".*+DRAIN"'
echo "FIGURE drained-after $(since "$sick")"
[ "$(since "$sick" | cut -d. -f1)" -le $((INTERVAL_S + 5)) ] || fail "not within an interval"
shown "sinfo --list-reasons --format='%N %E'"
says 'memwright: fragmented-node: '
wait $job
sick=$(now_s)
eventually 90 'in_state IDLE'
echo "FIGURE resumed-after $(since "$sick")"
pgrep -x service >/dev/null || fail "the service is gone"
quiet 'cat /mnt/log/health'
says '^ready: 256 MiB' "no room was made"
says '^node node1: resumed' "not resumed by the health program"

# The next job has what it could not have had before.
cat >/mnt/log/next <<'END'
#!/bin/sh
echo 128 >/proc/sys/vm/nr_hugepages
hold hugetlb 256M once
code=$?
echo 0 >/proc/sys/vm/nr_hugepages
exit $code
END
chmod 755 /mnt/log/next
shown 'srun --job-name=next /mnt/log/next && echo "the next job has its 256 MiB"'
ended 0

# A drain by hand is left alone.
scontrol update NodeName=node1 State=DRAIN Reason='fan broken'
before=$(runs)
eventually 60 "[ \$(runs) -ge $((before + 2)) ]"
shown "sinfo --list-reasons --format='%N %E'"
says '^node1 fan broken$'
systemctl stop slurmd slurmctld munge
pkill -x service
quiet 'memwright changes'
says '^no changes' "make-room left a change"
