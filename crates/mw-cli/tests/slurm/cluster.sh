#!/bin/sh
# A Slurm cluster of two nodes in namespaces of its own, in the directory $1. The health program of each node is
# $1/health. It is process 1 there: with it, everything ends.
set -eu
dir=$1
ip link set lo up
# Names are not resolved without an address beside 127.0.0.1.
ip address add 192.0.2.1/32 dev lo
hostname cluster
printf '127.0.0.1 localhost\n192.0.2.1 cluster\n' >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
mkdir "$dir/state" "$dir/munge"
head -c 128 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"

cat >"$dir/slurm.conf" <<CONF
ClusterName=memwright
SlurmctldHost=cluster(192.0.2.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ReturnToService=1
Prolog=$dir/prolog
Epilog=$dir/prolog
HealthCheckProgram=$dir/health
HealthCheckInterval=2
HealthCheckNodeState=ANY
NodeName=n1 NodeHostname=cluster NodeAddr=192.0.2.1 Port=7001 CPUs=1 RealMemory=100
NodeName=n2 NodeHostname=cluster NodeAddr=192.0.2.1 Port=7002 CPUs=1 RealMemory=100
PartitionName=all Nodes=n1,n2 Default=YES State=UP
CONF

munged --foreground --force --socket="$dir/munge/socket" --key-file="$dir/munge/key" \
    --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/munge/log" &
while ! [ -S "$dir/munge/socket" ]; do sleep 0.02; done
export SLURM_CONF="$dir/slurm.conf"
slurmctld -D -c &
slurmd -D -N n1 &
slurmd -D -N n2 &
wait
