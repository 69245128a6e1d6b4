#!/usr/bin/env bash
# The real layer: unmodified Kafka (tools, Admin client, brokers, from Maven) against the release binary; and, where an
# independent player of the recorded scenarios lies beside the checkout, what that player finds.
# The last line is "real layer: N passed, 0 failed". Fails when Java or Maven is missing, or when no test ran.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fail() { echo "real layer: $*"; exit 1; }

for tool in java javac keytool mvn python3 cargo; do
  command -v "$tool" >/dev/null || fail "$tool is missing; it needs Java 17, Maven, Python 3 and cargo"
done
version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || fail "Java 17 or newer is needed, this is ${version:-unknown}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo test --release -p streamside --test real -- --ignored --test-threads=2 2>&1 | tee "$work/log"
passed=$(awk '/^test result: ok\. [0-9]+ passed; 0 failed/ { n += $4 } END { print n + 0 }' "$work/log")
there=$(grep -rh '^#\[ignore' tests/real | wc -l)
[ "$passed" -eq "$there" ] && [ "$passed" -gt 0 ] || fail "$passed tests passed, there are $there"

player=${STREAMSIDE_PLAYER:-$(ls -d ../*/conformance/run.py 2>/dev/null | head -n 1)}
if [ -z "$player" ] || [ ! -e "$player" ]; then
  echo "real layer: no independent player beside the checkout, its cross-check is left out"
  echo "real layer: $passed passed, 0 failed"
  exit
fi

# NAME PROGRAM PROVIDES ONLY OVERRIDE...: plays to a server of its own what a standalone server can play.
cross_check() (
  name=$1 program=$2 provides=$3 only=$4; shift 4
  read -r port http < <(python3 -c '
import random, socket
found = []
while len(found) < 2:
    port = random.randint(12000, 31000)
    with socket.socket() as s:
        if port not in found and s.connect_ex(("127.0.0.1", port)):
            found.append(port)
print(*found)')
  args=()
  for override in "listeners=PLAINTEXT://127.0.0.1:$port" "streamside.http.listen=127.0.0.1:$http" \
      "streamside.data.dir=$work/$name" streamside.compat=kafka \
      group.streams.initial.rebalance.delay.ms=0 group.streams.assignment.interval.ms=0 \
      group.streams.min.session.timeout.ms=1000 group.streams.session.timeout.ms=8000 \
      group.streams.min.heartbeat.interval.ms=100 group.streams.heartbeat.interval.ms=1000 "$@"; do
    args+=(--override "$override")
  done
  "$program" serve "${args[@]}" > "$work/$name.server" 2>&1 &
  server=$!
  trap 'kill "$server" 2>/dev/null || true' EXIT
  for _ in $(seq 100); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
  done
  jars=${XDG_CACHE_HOME:-$HOME/.cache}/streamside-real/4.4.0/jars
  KAFKA_CLIENTS_JAR=$jars/kafka-clients-4.4.0.jar python3 "$player" --bootstrap "127.0.0.1:$port" --jobs 8 \
    --provides "$provides" --only "$only" --tags=-topics,-tasks,-coordinator,-classic,-acl,-java,-expiry
)

# Most of their time the scenarios wait, so the three servers are played to at the same time.
plugin=group.streams.topology.description.plugin.class
cargo build --quiet -p streamside --example harness
cross_check plugin target/release/streamside plugin . > "$work/plugin.log" 2>&1 &
cross_check none target/release/streamside none without-plugin $plugin= > "$work/none.log" 2>&1 &
cross_check misbehaving target/debug/examples/harness test-plugin . $plugin=misbehaving > "$work/misbehaving.log" 2>&1 &
wait
for name in plugin none misbehaving; do
  printf '\nindependent player, %s:\n' "$name"
  grep -v '^SKIP\|^PASS' "$work/$name.log" || true
  count=$(sed -n 's/^\([0-9]*\) passed, 0 failed.*/\1/p' "$work/$name.log")
  [ "${count:-0}" -gt 0 ] || { tail -n 20 "$work/$name.server"; fail "the independent player is not content"; }
  echo "real layer: the independent player agrees on $count scenarios"
done
echo "real layer: $passed passed, 0 failed"
