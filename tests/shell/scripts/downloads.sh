mkdir -p /data
[ -f /data/a.tar ] || wget -q https://data.example.org/a.tar -P /data
curl -L -o /data/b.zip "https://data.example.org/b.zip?x=1&y=2"
huggingface-cli download example/model --local-dir /models/m
aws s3 sync s3://bucket/imagenet /data/imagenet
gsutil -m cp -r gs://bucket/x /data
git lfs pull
unzip -q /data/b.zip -d /data
python train.py --data /data
aws s3 cp out s3://bucket/out --recursive
