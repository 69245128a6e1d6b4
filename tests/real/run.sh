#!/usr/bin/env bash
# The real layer: unmodified Kafka 4.4.0 (tools, Admin client, brokers, from Maven) against the release binary.
# The last line is "real layer: N passed, 0 failed". Fails when Java or Maven is missing, or when no test ran.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for tool in java javac mvn cargo; do
  command -v "$tool" >/dev/null || { echo "real layer: $tool is missing; it needs Java 17, Maven and cargo"; exit 1; }
done
version=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || { echo "real layer: Java 17 or newer is needed, this is ${version:-unknown}"; exit 1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --release -p streamside --test real -- --ignored --test-threads=1 2>&1 | tee "$log"
passed=$(awk '/^test result: ok\. [0-9]+ passed; 0 failed/ { n += $4 } END { print n + 0 }' "$log")
[ "$passed" -gt 0 ] || { echo "real layer: no test ran"; exit 1; }
echo "real layer: $passed passed, 0 failed"
