cat > hostfile <<EOF
node-0 slots=8
node-1 slots=8
EOF
deepspeed --hostfile=hostfile --no_ssh --node_rank=$STOKER_NODE_RANK train.py
