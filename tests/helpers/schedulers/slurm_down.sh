#!/usr/bin/env bash
# Stops what slurm_up.sh DIRECTORY started: by remembered pid, and only if it still is that program.
set -uo pipefail
DIR=$1
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$DIR/slurm.conf
stop() { # stop NAME PROGRAM SIGNAL
  local pid
  pid=$(cat "$DIR/pid/$1" 2>/dev/null) || return 0
  rm -f "$DIR/pid/$1"
  is() { [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ]; }
  is "$2" || return 0
  kill "-$3" "$pid"
  for _ in $(seq 50); do is "$2" || return 0; sleep 0.1; done
  kill -KILL "$pid"
}
if [ -f "$DIR/pid/slurmctld" ] && timeout 5 scontrol ping &>/dev/null; then timeout 10 scancel --me --signal=KILL --full; fi 2>/dev/null
for node in c1 c2; do
  stop "node-$node" unshare KILL # --kill-child takes the whole node with it
  ip link del "lt-$node" 2>/dev/null
done
stop slurmctld slurmctld TERM
stop slurmdbd slurmdbd TERM
stop mariadbd mariadbd TERM
stop munged munged TERM
ip link del br-labtest 2>/dev/null
if [ "$(readlink /etc/slurm/slurm.conf)" = "$DIR/slurm.conf" ]; then rm -f /etc/slurm/slurm.conf; fi
exit 0
