python - <<'EOF'
import torch
print(torch.__version__)
EOF
python3 <<PY
print("inline")
PY
deepspeed train.py
