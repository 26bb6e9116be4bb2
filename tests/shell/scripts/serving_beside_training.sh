CUDA_VISIBLE_DEVICES=0,1 python -m vllm.entrypoints.openai.api_server --model m -tp 2 &
until curl -sf localhost:8000/health; do sleep 5; done
CUDA_VISIBLE_DEVICES=2,3,4,5,6,7 accelerate launch --num_processes 6 grpo.py
