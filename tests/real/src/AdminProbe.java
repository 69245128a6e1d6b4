import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.common.Node;

/**
 * Drives the stock Admin client against an address and prints one "name=value" line for each fact, for the runner to
 * compare. Arguments: BOOTSTRAP (or @FILE with the client's properties) GROUP, then the actions: cluster, list, describe, describe-plain, missing, delete.
 */
public final class AdminProbe {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String group = args[1];
        Map<String, Object> config = new HashMap<>(Map.of(
            AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, 10_000,
            AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 15_000));
        if (bootstrap.startsWith("@")) {
            Properties file = new Properties();
            try (var text = Files.newBufferedReader(Path.of(bootstrap.substring(1)))) {
                file.load(text);
            }
            file.forEach((name, value) -> config.put((String) name, value));
        }
        try (Admin admin = Admin.create(config)) {
            for (int i = 2; i < args.length; i++) {
                run(admin, group, args[i]);
            }
        }
    }

    private static void run(Admin admin, String group, String action) throws Exception {
        switch (action) {
            case "cluster" -> {
                var cluster = admin.describeCluster();
                Collection<Node> nodes = cluster.nodes().get();
                say("nodes", nodes.size());
                Node node = nodes.iterator().next();
                say("node", node.host() + ":" + node.port());
                say("controller", cluster.controller().get().id() == node.id());
                say("cluster-id-length", cluster.clusterId().get().length());
            }
            case "list" -> {
                TreeSet<String> names = new TreeSet<>();
                for (GroupListing listing : admin.listGroups(ListGroupsOptions.forStreamsGroups()).all().get()) {
                    names.add(listing.groupId() + "/" + listing.type().map(Object::toString).orElse("-")
                        + "/" + listing.groupState().map(Object::toString).orElse("-"));
                }
                say("listed", names);
            }
            case "describe" -> {
                StreamsGroupDescription description = admin
                    .describeStreamsGroups(List.of(group), new DescribeStreamsGroupsOptions().includeTopologyDescription(true))
                    .describedGroups().get(group).get();
                say("status", description.topologyDescriptionStatus());
                say("state", description.groupState());
                say("epochs", description.groupEpoch() + "/" + description.targetAssignmentEpoch() + "/" + description.topologyEpoch());
                say("assignor", description.assignorName().orElse("-"));
                say("members", description.members().size());
                List<String> subtopologies = new ArrayList<>();
                description.topologyDescription().ifPresent(t -> t.subtopologies().forEach(s ->
                    subtopologies.add(s.id() + ":" + s.nodes().size())));
                say("subtopologies", subtopologies);
                say("global-stores", description.topologyDescription().map(t -> t.globalStores().size()).orElse(0));
            }
            case "describe-plain" -> {
                StreamsGroupDescription description =
                    admin.describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
                say("plain-status", description.topologyDescriptionStatus());
                say("plain-present", description.topologyDescription().isPresent());
            }
            case "missing" -> say("missing", failure(() ->
                admin.describeStreamsGroups(List.of("no-such-group")).describedGroups().get("no-such-group").get()));
            case "delete" -> say("delete", failure(() -> admin.deleteStreamsGroups(List.of(group)).all().get()));
            default -> throw new IllegalArgumentException(action);
        }
    }

    private interface Call {
        Object get() throws Exception;
    }

    private static String failure(Call call) throws Exception {
        try {
            call.get();
            return "ok";
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
        }
    }

    private static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}
