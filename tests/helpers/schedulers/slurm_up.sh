#!/usr/bin/env bash
# A real Slurm of two nodes on this machine (Debian or Ubuntu, root): slurm_up.sh DIRECTORY
# Each node is a set of namespaces: own host name, address, loopback, processes, /dev/shm and /local; no route out.
# What it makes lies in DIRECTORY; slurm_down.sh DIRECTORY stops it. Starting twice is harmless.
set -euo pipefail
DIR=$1
NET=10.78.0 # controller .1, nodes .11 and .12; never leaves this machine
BRIDGE=br-labtest
NODES=(c1 c2)
export PATH=$PATH:/usr/sbin:/sbin
fail() { echo "slurm_up: $*" >&2 && tail -n 20 "$DIR"/log/* >&2 2>/dev/null; exit 1; }
# shellcheck source=tests/helpers/schedulers/daemons.sh
. "$(dirname "$0")/daemons.sh"
# The controller calls a node idle for some seconds after it died, so its process is looked at, too.
both_live() {
  for node in "${NODES[@]}"; do
    [ "$(cat "/proc/$(cat "$DIR/pid/node-$node")/comm")" = unshare ] || return 1
  done
} 2>/dev/null
both_idle() { [ "$(sinfo -h -N -p debug -t idle -o %N | wc -l)" = ${#NODES[@]} ]; }
[ "$(id -u)" = 0 ] || fail "needs root, for namespaces and daemons"

# ---- packages
need=()
command -v slurmctld >/dev/null || need+=(slurm-wlm slurm-client slurm-wlm-basic-plugins)
command -v munged >/dev/null || need+=(munge)
command -v ip >/dev/null || need+=(iproute2)
if [ ${#need[@]} -gt 0 ]; then
  "$(dirname "$0")/install.sh" "${need[@]}" || fail "apt-get install ${need[*]}"
fi

export SLURM_CONF=$DIR/slurm.conf
if [ -f "$DIR/pid/slurmctld" ] && timeout 5 scontrol ping 2>/dev/null | grep -q UP && both_live && both_idle; then exit 0; fi
"$(dirname "$0")/slurm_down.sh" "$DIR"
mkdir -p "$DIR"/{log,pid,state,munge,spool-c1,spool-c2}
chmod 755 "$DIR" "$DIR/munge"

# ---- settings
[ -s "$DIR/munge/key" ] || (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge/key")
for i in 0 1 2 3; do [ -e "$DIR/gpu$i" ] || mknod -m 666 "$DIR/gpu$i" c 1 3; done # a device file is all Slurm wants of a GPU
printf '#!/bin/sh\n[ ! -e %s/prolog-fails ]\n' "$DIR" >"$DIR/prolog.sh" && chmod +x "$DIR/prolog.sh"
HOST=$(hostname -s)
cat >"$DIR/slurm.conf" <<CONF
ClusterName=labtest
SlurmctldHost=$HOST($NET.1)
SlurmctldPort=27817
SlurmdPort=27818
SrunPortRange=27900-28100
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$DIR/munge/socket
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool-%n
SlurmctldPidFile=$DIR/pid/slurmctld.self
SlurmdPidFile=$DIR/pid/slurmd-%n.self
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd-%n.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
AccountingStoragePort=27819
AccountingStoragePass=$DIR/munge/socket
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=10
Prolog=$DIR/prolog.sh
MinJobAge=3600
EnforcePartLimits=ALL
SlurmdTimeout=15
TCPTimeout=5
MessageTimeout=20
LaunchParameters=use_interactive_step
DefMemPerCPU=200
GresTypes=gpu
NodeName=c1 NodeAddr=$NET.11 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:4
NodeName=c2 NodeAddr=$NET.12 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:4
PartitionName=debug Nodes=c[1-2] Default=YES DefaultTime=10 MaxTime=60 PriorityTier=10
PartitionName=low Nodes=c[1-2] DefaultTime=10 MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=30
CONF
[ ! -e "$DIR/more.conf" ] || cat "$DIR/more.conf" >>"$DIR/slurm.conf" # of one test
echo "NodeName=c[1-2] Name=gpu Type=fake File=$DIR/gpu[0-3]" >"$DIR/gres.conf"
printf '127.0.0.1 localhost\n%s.1 %s\n%s.11 c1\n%s.12 c2\n' $NET "$HOST" $NET $NET >"$DIR/hosts"
mkdir -p /etc/slurm /local # clients look for their settings in /etc/slurm, also in jobs with --export=NONE
if [ ! -e /etc/slurm/slurm.conf ] || [ -L /etc/slurm/slurm.conf ]; then ln -sfn "$DIR/slurm.conf" /etc/slurm/slurm.conf; fi

# ---- daemons
daemon munged munged --foreground --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --pid-file="$DIR/munge/pid" \
  --log-file="$DIR/log/munged.log" --seed-file="$DIR/munge/seed"
within 10 munge -n --socket="$DIR/munge/socket" || fail "munged does not answer"
if grep -q accounting_storage/slurmdbd "$DIR/slurm.conf"; then "$(dirname "$0")/slurm_accounts.sh" "$DIR"; fi
ip link show $BRIDGE &>/dev/null || ip link add $BRIDGE type bridge
ip addr replace $NET.1/24 dev $BRIDGE
ip link set $BRIDGE up
cp "$(dirname "$0")/slurm_node.sh" "$DIR/node.sh"
start_node() { "$(dirname "$0")/slurm_node_start.sh" "$DIR" "$1"; }
for node in "${NODES[@]}"; do start_node "$node"; done
daemon slurmctld slurmctld -D
within 30 sh -c 'scontrol ping | grep -q UP' || fail "slurmctld does not answer"
within 60 both_idle || fail "the nodes do not become idle: $(sinfo -N -l)"
sinfo
