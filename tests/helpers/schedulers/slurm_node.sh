#!/usr/bin/env bash
# First process inside a node's namespaces: slurm_node.sh NAME ADDRESS HOSTS_FILE
hostname "$1"
ip link set lo up
for _ in $(seq 100); do ip link show eth0 &>/dev/null && break; sleep 0.05; done
ip addr add "$2/24" dev eth0
ip link set eth0 up
mount --bind "$3" /etc/hosts
for disk in /dev/shm /local; do mount -t tmpfs -o size=2g,mode=1777 tmpfs $disk; done
slurmd -D -N "$1" &
while kill -0 $! 2>/dev/null; do wait -n; done # the first process of a pid namespace buries the orphans
