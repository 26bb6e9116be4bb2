mkdir -p ~/.cache
cat > accelerate.yaml <<EOF
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 1
num_processes: 4
mixed_precision: bf16
EOF
accelerate launch --config_file accelerate.yaml train.py
accelerate launch --config_file unseen.yaml --num_processes 2 eval.py
