import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Consumer;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Applications by name, each with the topics it reads and writes. Keys and values are strings at the edges. */
final class Topologies {
    /** A graph and its topics with their partition counts. */
    record Sample(Topology topology, Map<String, Integer> topics) { }

    private static final Serde<String> TEXT = Serdes.String();
    private static final Duration FIVE_MINUTES = Duration.ofMinutes(5);

    static Sample get(String name) {
        return switch (name) {
            case "wordcount" -> dsl("words:2 wordcounts:2", b -> b.<String, String>stream("words")
                .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
                .groupBy((key, word) -> word, Grouped.with(TEXT, TEXT))
                .count(Materialized.<String, Long, KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("counts-store")
                    .withKeySerde(TEXT).withValueSerde(Serdes.Long()))
                .toStream().mapValues(String::valueOf).to("wordcounts"));
            case "pipe" -> dsl("plain-in:2 plain-out:2", b -> b.stream("plain-in").to("plain-out"));
            case "named-operators" -> dsl("input:2 output:2", b ->
                b.<String, String>stream("input", Consumed.as("Customer_transactions_input_topic"))
                    .filter((key, value) -> !value.equals("bogus"), Named.as("filter_out_invalid_txns"))
                    .mapValues(value -> value.toUpperCase(Locale.ROOT), Named.as("Map_values_to_upper"))
                    .peek((key, value) -> { }, Named.as("look"))
                    .to("output", Produced.as("Mapped_transactions_output_topic")));
            case "stream-stream-join" -> dsl("left:2 right:2 joined:2", b ->
                b.<String, String>stream("left").join(b.<String, String>stream("right"), (l, r) -> l + r,
                    JoinWindows.ofTimeDifferenceAndGrace(FIVE_MINUTES, Duration.ofMinutes(1)),
                    StreamJoined.with(TEXT, TEXT, TEXT).withName("sj").withStoreName("sj-store")).to("joined"));
            case "stream-table-join" -> dsl("clicks:3 users:3 enriched:3", b ->
                b.<String, String>stream("clicks")
                    .leftJoin(b.<String, String>table("users", Materialized.as("users-store")), (click, user) -> click + "@" + user)
                    .to("enriched"));
            case "fk-join" -> dsl("orders:2 customers:4 orders-out:2", b -> {
                KTable<String, String> orders = b.table("orders", Materialized.as("orders-store"));
                KTable<String, String> customers = b.table("customers", Materialized.as("customers-store"));
                orders.join(customers, order -> order.split(" ")[0], (order, customer) -> order + customer,
                    TableJoined.as("fk"), Materialized.as("fk-store")).toStream().to("orders-out");
            });
            case "global-ktable-join" -> dsl("clicks:2 countries:1 enriched:2", b -> {
                var countries = b.<String, String>globalTable("countries", Materialized.as("countries-global"));
                b.<String, String>stream("clicks").join(countries, (key, value) -> value, (click, country) -> click + country)
                    .to("enriched");
            });
            case "global-store-papi" -> dsl("rules:1 events:2 events-out:2", b -> {
                b.addGlobalStore(memory("rules-store").withLoggingDisabled(), "rules", Consumed.with(TEXT, TEXT),
                    keeper("rules-store"));
                b.<String, String>stream("events").process(forwarder()).to("events-out");
            });
            case "window-tumbling" -> dsl("ticks:2 ticks-out:2", b -> b.<String, String>stream("ticks")
                .groupByKey(Grouped.with(TEXT, TEXT))
                .windowedBy(TimeWindows.ofSizeAndGrace(FIVE_MINUTES, Duration.ofSeconds(30)))
                .count(Materialized.as("tumbling")).toStream()
                .map((window, count) -> KeyValue.pair(String.valueOf(window), String.valueOf(count))).to("ticks-out"));
            case "suppress-final" -> dsl("ticks:2 ticks-out:2", b -> b.<String, String>stream("ticks")
                .groupByKey(Grouped.with(TEXT, TEXT))
                .windowedBy(TimeWindows.ofSizeAndGrace(FIVE_MINUTES, Duration.ofSeconds(1))).count()
                .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream()
                .map((window, count) -> KeyValue.pair(String.valueOf(window), String.valueOf(count))).to("ticks-out"));
            case "cogroup-plain" -> dsl("co-a:2 co-b:2 co-out:2", b -> {
                Aggregator<String, String, String> last = (key, value, old) -> value;
                var first = b.<String, String>stream("co-a");
                var second = b.<String, String>stream("co-b");
                first.groupByKey(Grouped.with("ga", TEXT, TEXT)).cogroup(last)
                    .cogroup(second.groupByKey(Grouped.with("gb", TEXT, TEXT)), last)
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(FIVE_MINUTES))
                    .aggregate(() -> "", Materialized.as("co-win"))
                    .toStream((window, value) -> window.key()).to("co-out");
            });
            case "branch-merge" -> dsl("in:3 even:3 odd:3 rest:3 all:3", b -> {
                var parts = b.<String, String>stream("in").split(Named.as("by-"))
                    .branch((key, value) -> value.length() % 2 == 0, Branched.as("even"))
                    .branch((key, value) -> value.length() > 3, Branched.as("odd"))
                    .defaultBranch(Branched.as("rest"));
                KStream<String, String> even = parts.get("by-even"), odd = parts.get("by-odd"), rest = parts.get("by-rest");
                even.to("even");
                odd.to("odd");
                rest.to("rest");
                even.mapValues(value -> value + "e").merge(odd).merge(rest).to("all");
            });
            case "repartition-explicit" -> dsl("in:2 out:2", b -> b.<String, String>stream("in")
                .selectKey((key, value) -> value)
                .repartition(Repartitioned.<String, String>as("by-value").withNumberOfPartitions(3).withKeySerde(TEXT).withValueSerde(TEXT))
                .to("out"));
            case "dynamic-sink" -> dsl("in:2 dyn-a:2 fixed:2", b -> {
                KStream<String, String> in = b.stream("in");
                in.to((key, value, context) -> "dyn-a");
                in.mapValues(value -> value).to("fixed");
            });
            case "multi-topic-source" -> dsl("m-c:2 m-a:2 m-b:2 m-out:2", b ->
                b.<String, String>stream(List.of("m-c", "m-a", "m-b")).filter((key, value) -> true).to("m-out"));
            case "papi-stores" -> papi("src:2 dst:2", t -> t
                .addSource("in", TEXT.deserializer(), TEXT.deserializer(), "src")
                .addProcessor("logged", forwarder(), "in")
                .addProcessor("unlogged", forwarder(), "logged")
                .addProcessor("both", forwarder(), "in")
                .addStateStore(persistent("persistent"), "logged", "both")
                .addStateStore(memory("scratch").withLoggingDisabled(), "unlogged", "both")
                .addSink("end", "dst", TEXT.serializer(), TEXT.serializer(), "unlogged", "both"));
            case "papi-diamond" -> papi("src:2 dst:2 audit:1", t -> t
                .addSource("in", TEXT.deserializer(), TEXT.deserializer(), "src")
                .addProcessor("split", forwarder(), "in")
                .addProcessor("left", forwarder(), "split")
                .addProcessor("right", forwarder(), "split")
                .addProcessor("mid", forwarder(), "split")
                .addProcessor("meet", forwarder(), "left", "right", "mid")
                .addSink("dst-sink", "dst", TEXT.serializer(), TEXT.serializer(), "meet")
                .addSink("audit-sink", "audit", TEXT.serializer(), TEXT.serializer(), "meet", "split"));
            case "papi-two-globals" -> papi("gl-a:1 gl-b:1 src:2 dst:2", t -> {
                for (String x : List.of("a", "b")) {
                    t.addGlobalStore(memory("g-" + x).withLoggingDisabled(), "g-src-" + x, TEXT.deserializer(), TEXT.deserializer(),
                        "gl-" + x, "g-proc-" + x, keeper("g-" + x));
                }
                t.addSource("in", TEXT.deserializer(), TEXT.deserializer(), "src")
                    .addSink("out", "dst", TEXT.serializer(), TEXT.serializer(), "in");
            });
            default -> throw new IllegalArgumentException("no topology is named " + name);
        };
    }

    private static Sample dsl(String topics, Consumer<StreamsBuilder> build) {
        StreamsBuilder builder = new StreamsBuilder();
        build.accept(builder);
        return new Sample(builder.build(), counts(topics));
    }

    private static Sample papi(String topics, Consumer<Topology> build) {
        Topology topology = new Topology();
        build.accept(topology);
        return new Sample(topology, counts(topics));
    }

    private static Map<String, Integer> counts(String topics) {
        Map<String, Integer> counts = new LinkedHashMap<>();
        for (String topic : topics.split(" ")) {
            String[] parts = topic.split(":");
            counts.put(parts[0], Integer.valueOf(parts[1]));
        }
        return counts;
    }

    private static StoreBuilder<KeyValueStore<String, String>> memory(String name) {
        return Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), TEXT, TEXT);
    }

    private static StoreBuilder<KeyValueStore<String, String>> persistent(String name) {
        return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), TEXT, TEXT);
    }

    /** Passes everything on. */
    private static ProcessorSupplier<String, String, String, String> forwarder() {
        return () -> new Processor<>() {
            private ProcessorContext<String, String> context;

            @Override
            public void init(ProcessorContext<String, String> given) {
                context = given;
            }

            @Override
            public void process(Record<String, String> in) {
                context.forward(in);
            }
        };
    }

    /** Fills a global store. */
    private static ProcessorSupplier<String, String, Void, Void> keeper(String store) {
        return () -> new Processor<>() {
            private KeyValueStore<String, String> kept;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                kept = context.getStateStore(store);
            }

            @Override
            public void process(Record<String, String> in) {
                kept.put(in.key(), in.value());
            }
        };
    }

    private Topologies() { }
}
