echo "torchrun --nproc_per_node=1 train.py"
printf 'python train.py\n'
: 'torchrun --nproc_per_node=2 x.py'
cat <<EOF
Run it by: torchrun --nproc_per_node=3 train.py
EOF
cat > notes.txt <<'EOF'
torchrun --nproc_per_node=5 train.py
EOF
torchrun --nproc_per_node=8 train.py
