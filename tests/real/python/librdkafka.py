"""One round of a librdkafka client at an address, in topics and groups that begin with a prefix: facts as one line of JSON."""
import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

bootstrap, prefix = sys.argv[1:]
facts = {}


def waited(what, fetch, good):
    """Asks until the answer is good, for at most 30 seconds."""
    until = time.monotonic() + 30
    while True:
        answer = fetch()
        if good(answer) or time.monotonic() > until:
            facts[what] = answer
            return answer
        time.sleep(0.1)


admin = AdminClient({"bootstrap.servers": bootstrap})
topic, doubtful = prefix + "topic", prefix + "transactions"
for future in admin.create_topics([NewTopic(topic, 3, 1), NewTopic(doubtful, 1, 1)]).values():
    future.result(30)
seen = lambda: {name.removeprefix(prefix): len(t.partitions) for name, t in admin.list_topics(timeout=10).topics.items() if name.startswith(prefix)}
waited("topics", seen, lambda topics: len(topics) == 2)
facts["brokers"] = len(admin.describe_cluster().result(30).nodes)

# Last what nobody acknowledges: what it finds not there yet is lost, whoever stands between.
for acks in ("all", "1", "0"):
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "compression.type": "lz4", "linger.ms": 20})
    for i in range(500):
        producer.produce(topic, key=f"{acks}-{i}", value="x" * (i * 7), on_delivery=lambda e, m: failed.append(str(e)) if e else None)
    facts[f"unsent {acks}"] = producer.flush(30)
    facts[f"failed {acks}"] = failed

producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": prefix + "tx", "enable.idempotence": True})
producer.init_transactions(30)
for name, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
    producer.begin_transaction()
    producer.produce(doubtful, value=name)
    producer.flush(30)
    end(30)


def read(group, name, count, **config):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": prefix + group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **config})
    consumer.subscribe([name])
    found, until = [], time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        for message in consumer.consume(200, 1):
            found.append(str(message.error()) if message.error() else f"{message.key()} {len(message.value())}")
    consumer.commit(asynchronous=False)
    places = [TopicPartition(name, p) for p in range(3 if name == topic else 1)]
    offsets = [place.offset for place in consumer.committed(places, timeout=30)]
    consumer.close()
    return sorted(found), offsets


facts["classic"] = read("classic", topic, 1500)
facts["consumer"] = read("consumer", topic, 1500, **{"group.protocol": "consumer"})
facts["committed"] = read("committed", doubtful, 1)[0]
groups = lambda: sorted(g.group_id.removeprefix(prefix) for g in admin.list_consumer_groups().result(30).valid if g.group_id.startswith(prefix))
waited("groups", groups, lambda found: len(found) == 3)
described = admin.describe_consumer_groups([prefix + "classic"])[prefix + "classic"].result(30)
facts["state"] = str(described.state)
print(json.dumps(facts, sort_keys=True))
