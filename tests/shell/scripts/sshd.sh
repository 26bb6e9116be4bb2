mkdir -p /run/sshd
ssh-keygen -A
/usr/sbin/sshd -D -p 2222
