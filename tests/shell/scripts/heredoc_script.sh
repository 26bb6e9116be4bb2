cat > /tmp/run.sh <<'EOF'
#!/bin/bash
set -e
torchrun --nproc_per_node=$1 train.py
EOF
chmod +x /tmp/run.sh
bash /tmp/run.sh 4
