vllm serve meta-llama/Llama-3-70B --tensor-parallel-size 4 --port 8000
