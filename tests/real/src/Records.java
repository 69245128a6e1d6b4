import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Plain producers and consumers of every protocol, transactions, and a load that goes on in the background. */
final class Records {
    private static final StringSerializer WRITE = new StringSerializer();
    private static final StringDeserializer READ = new StringDeserializer();

    private static KafkaProducer<String, String> producer(Map<String, Object> config) {
        return new KafkaProducer<>(config, WRITE, WRITE);
    }

    private static Map<String, Object> with(Map<String, Object> config, Object... more) {
        Map<String, Object> all = new HashMap<>(config);
        for (int i = 0; i < more.length; i += 2) {
            all.put((String) more[i], more[i + 1]);
        }
        return all;
    }

    /** The same few records into each topic. */
    static void feed(Map<String, Object> config, Collection<String> topics, int count) {
        try (var producer = producer(with(config, "linger.ms", 20, "enable.idempotence", false))) {
            for (String topic : topics) {
                for (int i = 0; i < count; i++) {
                    producer.send(new ProducerRecord<>(topic, "key" + i, "value " + i + " of many words"));
                }
            }
            producer.flush();
        }
    }

    /** Sends and waits for each; "partition@offset" lines, where offset is -1 without acknowledgement. */
    static List<String> produce(Map<String, Object> config, String topic, List<String> values) throws Exception {
        List<String> lines = new ArrayList<>();
        try (var producer = producer(config)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, value.split("=")[0], value)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                lines.add(one.get().partition() + "@" + one.get().offset());
            }
        }
        return lines;
    }

    /** Reads a topic from its beginning until so many records came or time is up, without a group; "key=value" lines, sorted. */
    static List<String> read(Map<String, Object> config, String topic, int count, long millis) {
        List<String> lines = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(with(config, "enable.auto.commit", false), READ, READ)) {
            var partitions = consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long end = System.currentTimeMillis() + millis;
            while (lines.size() < count && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(r -> lines.add(r.key() + "=" + r.value()));
            }
        }
        Collections.sort(lines);
        return lines;
    }

    /** Two consumers of one group share a topic until so many records came; values, sorted, and what was committed. */
    static Map<String, Object> consume(Map<String, Object> config, String topic, String group, String protocol, int count, long millis) {
        Map<String, Object> all = with(config, "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        List<String> values = new ArrayList<>();
        Map<String, Object> facts = new HashMap<>();
        try (var first = new KafkaConsumer<>(all, READ, READ); var second = new KafkaConsumer<>(all, READ, READ)) {
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + millis;
            TreeSet<String> seen = new TreeSet<>();
            // Until everything came, and both have a share of the partitions.
            while ((seen.size() < count || first.assignment().isEmpty() || second.assignment().isEmpty()) && System.currentTimeMillis() < end) {
                for (var consumer : List.of(first, second)) {
                    consumer.poll(Duration.ofMillis(50)).forEach(r -> seen.add(r.value()));
                    consumer.commitSync();
                }
            }
            values.addAll(seen);
            facts.put("assigned", first.assignment().size() + "+" + second.assignment().size());
            TreeSet<String> committed = new TreeSet<>();
            TreeSet<TopicPartition> mine = new TreeSet<>((a, b) -> a.toString().compareTo(b.toString()));
            first.partitionsFor(topic).forEach(p -> mine.add(new TopicPartition(topic, p.partition())));
            first.committed(mine).forEach((p, o) -> committed.add(p.partition() + "@" + (o == null ? "-" : o.offset())));
            facts.put("committed", committed);
        }
        facts.put("values", values);
        return facts;
    }

    /** A share consumer reads and acknowledges; values, sorted. Its group starts at the earliest record by a group config. */
    static List<String> share(Map<String, Object> config, String topic, String group, int count, long millis) {
        TreeSet<String> values = new TreeSet<>();
        try (var consumer = new KafkaShareConsumer<>(with(config, "group.id", group), READ, READ)) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + millis;
            while (values.size() < count && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(r -> values.add(r.value()));
                consumer.commitSync();
            }
        }
        return List.copyOf(values);
    }

    /** One transaction that is committed with offsets of a group, one that is aborted. */
    static void transactions(Map<String, Object> config, String topic, String group, String id) throws Exception {
        Map<String, Object> reader = with(config, "group.id", group, "enable.auto.commit", false);
        try (var producer = producer(with(config, "transactional.id", id)); var consumer = new KafkaConsumer<>(reader, READ, READ)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "a", "committed-1"));
            producer.send(new ProducerRecord<>(topic, 1, "b", "committed-2"));
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(7)), consumer.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "a", "aborted")).get();
            producer.abortTransaction();
        }
    }

    // -- load ------------------------------------------------------------------------------------------------------

    private static final class Load {
        final TreeSet<String> acknowledged = new TreeSet<>();
        final ConcurrentHashMap<String, Integer> received = new ConcurrentHashMap<>();
        final TreeSet<String> failures = new TreeSet<>();
        final AtomicInteger sent = new AtomicInteger();
        volatile boolean sending = true;
        volatile boolean reading = true;
        Thread writer;
        Thread reader;
    }

    private final Map<String, Load> loads = new ConcurrentHashMap<>();

    /** Numbers are produced with all acknowledgements, a group reads them back; both until {@link #endLoad}. */
    void startLoad(String name, Map<String, Object> config, String topic, String protocol) {
        Load load = new Load();
        load.writer = new Thread(() -> {
            try (var producer = producer(with(config, "acks", "all", "delivery.timeout.ms", 60_000, "request.timeout.ms", 5_000))) {
                while (load.sending) {
                    String value = "n" + load.sent.getAndIncrement();
                    producer.send(new ProducerRecord<>(topic, value, value), (done, failure) -> {
                        synchronized (load) {
                            if (failure == null) {
                                load.acknowledged.add(value);
                            } else {
                                load.failures.add(failure.getClass().getSimpleName());
                            }
                        }
                    });
                    Thread.sleep(5);
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        load.reader = new Thread(() -> {
            Map<String, Object> all = with(config, "group.id", "load-" + name, "group.protocol", protocol, "auto.offset.reset", "earliest");
            try (var consumer = new KafkaConsumer<>(all, READ, READ)) {
                consumer.subscribe(List.of(topic));
                while (load.reading) {
                    for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                        load.received.merge(r.value(), 1, Integer::sum);
                    }
                }
            } catch (RuntimeException e) {
                synchronized (load) {
                    load.failures.add("reader: " + e);
                }
            }
        });
        load.writer.start();
        load.reader.start();
        loads.put(name, load);
    }

    /** How many were acknowledged and read back so far. */
    Map<String, Object> load(String name) {
        Load load = loads.get(name);
        synchronized (load) {
            return Map.of("sent", load.sent.get(), "acknowledged", load.acknowledged.size(), "received", load.received.size());
        }
    }

    /** Stops sending, gives the reader time for the rest; what was acknowledged and not read back is "lost". */
    Map<String, Object> endLoad(String name, long millis) throws InterruptedException {
        Load load = loads.remove(name);
        load.sending = false;
        load.writer.join(90_000);
        long end = System.currentTimeMillis() + millis;
        while (!load.received.keySet().containsAll(load.acknowledged) && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        load.reading = false;
        load.reader.join(20_000);
        List<String> lost = load.acknowledged.stream().filter(v -> !load.received.containsKey(v)).toList();
        return Map.of("sent", load.sent.get(), "acknowledged", load.acknowledged.size(), "received", load.received.size(),
            "lost", lost.size(), "failures", load.failures);
    }
}
