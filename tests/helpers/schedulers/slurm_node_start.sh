#!/usr/bin/env bash
# Starts one node of the test cluster, also again after it was killed: slurm_node_start.sh DIRECTORY c1|c2
set -euo pipefail
DIR=$1 NODE=$2 NET=10.78.0 BRIDGE=br-labtest
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$DIR/slurm.conf
mkdir -p "$DIR/spool-$NODE"
ip link del "lt-$NODE" 2>/dev/null || true
setsid unshare --fork --kill-child --pid --mount-proc --net --uts --ipc --mount \
  bash "$DIR/node.sh" "$NODE" "$NET.1${NODE#c}" "$DIR/hosts" </dev/null >>"$DIR/log/$NODE.out" 2>&1 &
OUTSIDE=$!
echo $OUTSIDE >"$DIR/pid/node-$NODE"
for _ in $(seq 100); do # the first process inside the node's namespaces
  INSIDE=$(cat "/proc/$OUTSIDE/task/$OUTSIDE/children" 2>/dev/null || true)
  INSIDE=${INSIDE%% *}
  [ -n "$INSIDE" ] && break
  sleep 0.05
done
[ -n "$INSIDE" ] || { echo "node $NODE did not start" >&2 && exit 1; }
ip link add "lt-$NODE" type veth peer name eth0 netns "$INSIDE"
ip link set "lt-$NODE" master $BRIDGE up
