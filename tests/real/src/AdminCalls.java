import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** What the stock Admin client can ask and change. */
final class AdminCalls {
    /** Makes topics and waits until every partition has a leader. */
    static void topics(Admin admin, Map<String, Integer> counts) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        counts.forEach((name, partitions) -> topics.add(new NewTopic(name, Optional.of(partitions), Optional.empty())));
        for (var made : admin.createTopics(topics).values().values()) {
            try {
                made.get();
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof TopicExistsException)) {
                    throw e;
                }
            }
        }
        for (int i = 0; i < 100; i++) {
            try {
                var described = admin.describeTopics(counts.keySet()).allTopicNames().get().values();
                if (described.stream().allMatch(t -> t.partitions().stream().allMatch(p -> p.leader() != null && p.leader().id() >= 0))) {
                    return;
                }
            } catch (ExecutionException e) {
                // Not known everywhere yet.
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("topics without leaders");
    }

    /** Deletes what is there, internal topics of Kafka excepted. */
    static void deleteTopics(Admin admin, Collection<String> but) throws Exception {
        Set<String> names = new TreeSet<>(admin.listTopics().names().get());
        names.removeAll(but);
        admin.deleteTopics(names).all().get();
        for (int i = 0; i < 100 && admin.listTopics().names().get().stream().anyMatch(names::contains); i++) {
            Thread.sleep(50);
        }
    }

    /** One streams group in a few words. */
    static Map<String, Object> describe(Admin admin, String group) throws Exception {
        StreamsGroupDescription said = admin
            .describeStreamsGroups(List.of(group), new DescribeStreamsGroupsOptions().includeTopologyDescription(true))
            .describedGroups().get(group).get();
        Map<String, Object> facts = new TreeMap<>();
        facts.put("state", said.groupState().toString());
        facts.put("status", said.topologyDescriptionStatus().toString());
        facts.put("epoch", said.groupEpoch());
        facts.put("coordinator", said.coordinator().id());
        facts.put("address", said.coordinator().host() + ":" + said.coordinator().port());
        TreeSet<String> members = new TreeSet<>(), processes = new TreeSet<>(), hosts = new TreeSet<>();
        said.members().forEach(member -> {
            members.add(member.memberId());
            processes.add(member.processId());
            hosts.add(member.clientHost());
        });
        facts.put("members", members);
        facts.put("processes", processes);
        facts.put("hosts", hosts);
        List<String> subtopologies = new ArrayList<>();
        said.topologyDescription().ifPresent(t -> t.subtopologies().forEach(s -> subtopologies.add(s.id() + ":" + s.nodes().size())));
        facts.put("subtopologies", subtopologies);
        return facts;
    }

    /** Nobody may do this to a group any more, whoever asks. */
    static void deny(Admin admin, String group, String operation) throws Exception {
        var pattern = new ResourcePattern(ResourceType.GROUP, group, PatternType.LITERAL);
        AclBinding all = new AclBinding(pattern, new AccessControlEntry("User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW));
        AclBinding not = new AclBinding(pattern,
            new AccessControlEntry("User:*", "*", AclOperation.valueOf(operation), AclPermissionType.DENY));
        admin.createAcls(List.of(all, not)).all().get();
        // Authorizers learn of it a little later.
        for (int i = 0; i < 100 && admin.describeAcls(AclBindingFilter.ANY).values().get().size() < 2; i++) {
            Thread.sleep(50);
        }
    }

    private interface Call {
        Object get() throws Exception;
    }

    /** A round of calls over everything that applications administer; one "name=value" line each. */
    static List<String> round(Admin admin, String prefix) throws Exception {
        List<String> lines = new ArrayList<>();
        String topic = prefix + "admin";
        TopicPartition partition = new TopicPartition(topic, 0);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        say(lines, "nodes", () -> admin.describeCluster().nodes().get().stream().map(n -> n.id()).sorted().toList());
        say(lines, "cluster-id", () -> admin.describeCluster().clusterId().get());
        say(lines, "create", () -> {
            topics(admin, Map.of(topic, 1));
            return "ok";
        });
        say(lines, "create-again", () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        say(lines, "partitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            for (int i = 0; i < 100 && admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() < 3; i++) {
                Thread.sleep(50);
            }
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        });
        say(lines, "set-config", () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(new ConfigEntry(TopicConfig.RETENTION_MS_CONFIG, "12345"), AlterConfigOp.OpType.SET)))).all().get());
        say(lines, "config", () -> {
            for (int i = 0; i < 100; i++) {
                String value = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(TopicConfig.RETENTION_MS_CONFIG).value();
                if (value.equals("12345")) {
                    return value;
                }
                Thread.sleep(50);
            }
            return "not applied";
        });
        say(lines, "broker-configs", () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "1")))
            .all().get().values().iterator().next().entries().size() > 100);
        say(lines, "log-dirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().get().size());
        say(lines, "offsets", () -> admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition).offset());
        say(lines, "delete-records", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all().get());
        say(lines, "features", () -> new TreeMap<>(admin.describeFeatures().featureMetadata().get().finalizedFeatures()).keySet());
        say(lines, "quorum", () -> admin.describeMetadataQuorum().quorumInfo().get().voters().size());
        say(lines, "producers", () -> admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().size());
        say(lines, "transactions", () -> admin.listTransactions().all().get().stream().map(t -> t.transactionalId()).filter(t -> t.startsWith(prefix)).count());
        say(lines, "quotas", () -> admin.describeClientQuotas(org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities().get());
        say(lines, "acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        say(lines, "tokens", () -> admin.describeDelegationToken().delegationTokens().get());
        say(lines, "reassignments", () -> admin.listPartitionReassignments().reassignments().get());
        say(lines, "missing-group", () -> admin.describeConsumerGroups(List.of(prefix + "nobody")).all().get());
        say(lines, "missing-streams-group", () -> admin.describeStreamsGroups(List.of(prefix + "nobody")).all().get());
        say(lines, "missing-topic", () -> admin.describeTopics(List.of(prefix + "nothing")).allTopicNames().get());
        say(lines, "delete", () -> admin.deleteTopics(List.of(topic)).all().get());
        return lines;
    }

    private static void say(List<String> lines, String name, Call call) {
        String value;
        try {
            value = String.valueOf(call.get());
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            value = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        lines.add(name + "=" + value);
    }

    private AdminCalls() { }
}
