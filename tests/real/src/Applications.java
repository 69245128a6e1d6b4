import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** Streams applications that run in this process, by a name of their instance. */
final class Applications {
    private record Running(KafkaStreams streams, List<String> failures) { }

    private final Map<String, Running> all = new ConcurrentHashMap<>();

    /** Starts one; gives the text of its own describe(). */
    String start(String instance, String topology, Map<String, String> config) {
        Properties properties = new Properties();
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        properties.put("auto.offset.reset", "earliest");
        properties.put("commit.interval.ms", "200");
        properties.putAll(config);
        Topologies.Sample sample = Topologies.get(topology);
        KafkaStreams streams = new KafkaStreams(sample.topology(), properties);
        List<String> failures = Collections.synchronizedList(new ArrayList<>());
        streams.setUncaughtExceptionHandler(failure -> {
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                failures.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        all.put(instance, new Running(streams, failures));
        streams.start();
        return sample.topology().describe().toString();
    }

    /** Waits for a state; gives the one that is reached, and what went wrong. */
    Map<String, Object> await(String instance, String state, long millis) throws InterruptedException {
        Running running = all.get(instance);
        long end = System.currentTimeMillis() + millis;
        KafkaStreams.State now = running.streams.state();
        while (!now.name().equals(state) && now != KafkaStreams.State.ERROR && System.currentTimeMillis() < end) {
            Thread.sleep(20);
            now = running.streams.state();
        }
        return Map.of("state", now.name(), "failures", List.copyOf(running.failures));
    }

    /** Who runs which tasks, as this instance knows it. */
    Map<String, Object> tasks(String instance) {
        KafkaStreams streams = all.get(instance).streams;
        TreeSet<String> active = new TreeSet<>(), standby = new TreeSet<>();
        streams.metadataForLocalThreads().forEach(thread -> {
            thread.activeTasks().forEach(task -> active.add(task.taskId().toString()));
            thread.standbyTasks().forEach(task -> standby.add(task.taskId().toString()));
        });
        Map<String, Object> hosts = new TreeMap<>();
        streams.metadataForAllStreamsClients().forEach(host -> hosts.put(host.hostInfo().host() + ":" + host.hostInfo().port(), Map.of(
            "active", new TreeSet<>(host.topicPartitions().stream().map(Object::toString).toList()),
            "standby", new TreeSet<>(host.standbyTopicPartitions().stream().map(Object::toString).toList()))));
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("threads", streams.metadataForLocalThreads().size());
        facts.put("active", active);
        facts.put("standby", standby);
        facts.put("hosts", hosts);
        return facts;
    }

    /** Ends it; whether it ended in time. */
    boolean close(String instance, boolean leave) {
        Running running = all.remove(instance);
        var operation = leave ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;
        return running.streams.close(CloseOptions.groupMembershipOperation(operation).withTimeout(Duration.ofSeconds(20)));
    }
}
