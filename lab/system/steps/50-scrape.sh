# systemd listens for the recorder, and a scrape has its metrics
. /mnt/lib.sh
shown "sed -i '1i [watch]\nlisten = \"systemd\"\n' /etc/memwright/memwright.toml"
shown 'systemctl stop memwright && systemctl enable --now memwright.socket && systemctl start memwright'
ended 0
eventually 30 'curl -sf -m 20 http://127.0.0.1:9818/metrics'
shown 'curl -s -m 20 http://127.0.0.1:9818/metrics | grep -E "^memwright_(checked|memory_bytes|incidents)"'
ended 0
says '^memwright_checked 1'
quiet 'curl -s -m 20 http://127.0.0.1:9818/metrics | grep -c ^memwright'
# A scrape starts the recorder, and waits until it has measured.
quiet 'systemctl stop memwright'
started=$(now_s)
quiet 'curl -s -m 60 -w "%{http_code}\n" http://127.0.0.1:9818/metrics | tail -1'
says '^200$'
echo "FIGURE scrape-that-starts-the-recorder $(since "$started")"
quiet 'curl -s -m 20 http://127.0.0.1:9818/metrics | grep -E "^memwright_checked"'
says '^memwright_checked 1'
quiet 'systemctl is-active memwright memwright.socket'
ended 0
