apt-get update -y && apt-get install -y --no-install-recommends libgl1 ffmpeg
pip install --upgrade pip
pip install torch==2.4.0 --index-url https://download.pytorch.org/whl/cu121
pip install -r requirements.txt flash-attn --no-build-isolation
git clone https://github.com/example-org/trainer.git && cd trainer
python setup.py develop
torchrun --nproc_per_node=8 train.py
