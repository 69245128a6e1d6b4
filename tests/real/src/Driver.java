import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.admin.Admin;

/**
 * Unmodified Kafka clients, driven by lines of JSON: one command in ({"do": …}), one answer out. One process serves a
 * whole test, since starting a JVM costs more than what most commands do.
 *
 * "config" sets properties that every later client gets; each command names its own "bootstrap".
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Map<String, String> settings = new HashMap<>();
    private final Applications applications = new Applications();
    private final Records records = new Records();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Driver driver = new Driver();
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("ok", driver.run(JSON.readTree(line)));
            } catch (Throwable e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String text(JsonNode command, String name) {
        JsonNode value = command.path(name);
        if (value.isMissingNode()) {
            throw new IllegalArgumentException(command + " lacks " + name);
        }
        return value.asText();
    }

    private static List<String> list(JsonNode command, String name) {
        List<String> values = new ArrayList<>();
        command.path(name).forEach(value -> values.add(value.asText()));
        return values;
    }

    private Map<String, Object> client(JsonNode command) {
        Map<String, Object> config = new HashMap<>(settings);
        config.put("bootstrap.servers", text(command, "bootstrap"));
        command.path("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return config;
    }

    private Object run(JsonNode c) throws Exception {
        long millis = c.path("millis").asLong(30_000);
        int count = c.path("count").asInt(0);
        switch (text(c, "do")) {
            case "config":
                settings.clear();
                c.path("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
                return true;
            case "topology":
                return Topologies.get(text(c, "topology")).topics();
            case "start": {
                Map<String, String> config = new HashMap<>();
                client(c).forEach((key, value) -> config.put(key, String.valueOf(value)));
                return applications.start(text(c, "instance"), text(c, "topology"), config);
            }
            case "await":
                return applications.await(text(c, "instance"), text(c, "state"), millis);
            case "tasks":
                return applications.tasks(text(c, "instance"));
            case "close":
                return applications.close(text(c, "instance"), c.path("leave").asBoolean(true));
            case "tool": {
                List<String> args = list(c, "args");
                args.add(0, text(c, "bootstrap"));
                args.add(0, "--bootstrap-server");
                return StockTool.run(text(c, "main"), args.toArray(String[]::new));
            }
            case "feed":
                Records.feed(client(c), list(c, "topics"), count);
                return true;
            case "produce":
                return Records.produce(client(c), text(c, "topic"), list(c, "values"));
            case "read":
                return Records.read(client(c), text(c, "topic"), count, millis);
            case "consume":
                return Records.consume(client(c), text(c, "topic"), text(c, "group"), text(c, "protocol"), count, millis);
            case "share":
                return Records.share(client(c), text(c, "topic"), text(c, "group"), count, millis);
            case "transactions":
                Records.transactions(client(c), text(c, "topic"), text(c, "group"), text(c, "id"));
                return true;
            case "load-start":
                records.startLoad(text(c, "load"), client(c), text(c, "topic"), text(c, "protocol"));
                return true;
            case "load":
                return records.load(text(c, "load"));
            case "load-end":
                return records.endLoad(text(c, "load"), millis);
            default:
                try (Admin admin = Admin.create(client(c))) {
                    return administer(admin, c);
                }
        }
    }

    private static Object administer(Admin admin, JsonNode c) throws Exception {
        switch (text(c, "do")) {
            case "topics": {
                Map<String, Integer> topics = new LinkedHashMap<>();
                c.path("topics").properties().forEach(e -> topics.put(e.getKey(), e.getValue().asInt()));
                AdminCalls.topics(admin, topics);
                return true;
            }
            case "delete-topics":
                AdminCalls.deleteTopics(admin, list(c, "but"));
                return true;
            case "describe":
                return AdminCalls.describe(admin, text(c, "group"));
            case "delete-group":
                admin.deleteStreamsGroups(List.of(text(c, "group"))).all().get();
                return true;
            case "group-config": {
                var resource = new org.apache.kafka.common.config.ConfigResource(
                    org.apache.kafka.common.config.ConfigResource.Type.GROUP, text(c, "group"));
                var set = new org.apache.kafka.clients.admin.AlterConfigOp(
                    new org.apache.kafka.clients.admin.ConfigEntry(text(c, "key"), text(c, "value")),
                    org.apache.kafka.clients.admin.AlterConfigOp.OpType.SET);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
                return true;
            }
            case "commit":
                admin.alterConsumerGroupOffsets(text(c, "group"), Map.of(
                    new org.apache.kafka.common.TopicPartition(text(c, "topic"), 0),
                    new org.apache.kafka.clients.consumer.OffsetAndMetadata(c.path("offset").asLong()))).all().get();
                return true;
            case "committed": {
                var offsets = admin.listConsumerGroupOffsets(text(c, "group")).partitionsToOffsetAndMetadata().get();
                return offsets.entrySet().stream().map(e -> e.getKey() + "@" + e.getValue().offset()).sorted().toList();
            }
            case "nodes":
                return admin.describeCluster().nodes().get().stream().map(n -> n.id() + " " + n.host() + ":" + n.port()).sorted().toList();
            case "deny":
                AdminCalls.deny(admin, text(c, "group"), text(c, "operation"));
                return true;
            case "round":
                return AdminCalls.round(admin, text(c, "prefix"));
            default:
                throw new IllegalArgumentException("no such command: " + c);
        }
    }
}
