import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.SplittableRandom;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's own StandardAuthorizer, without a broker around it.
 *
 * <p>Without arguments it reads lines of tab-separated words from standard input and answers some of them with a line:
 *
 * <pre>
 * new    SUPER_USERS  ALLOW_EVERYONE                                 another authorizer, without rules
 * acl    TYPE  NAME  PATTERN  PRINCIPAL  HOST  OPERATION  PERMISSION  a rule for it
 * ask    PRINCIPAL  ADDRESS  OPERATION  TYPE  NAME                    ALLOWED or DENIED
 * any    PRINCIPAL  ADDRESS  OPERATION  TYPE                          the same of authorizeByResourceType
 * </pre>
 *
 * <p>{@code --time SHAPE SECONDS COUNT...} prints, as a line of JSON for each count, how long a decision takes with so many
 * rules: SHAPE is ranges, topics, mixed or nested, as in broker/acl/bench_test.go. Each measurement goes on for SECONDS after half
 * of that to warm up; where one decision takes longer, it is of one decision. ns_per_decision is by the clock, cpu_ns_per_decision
 * by what the thread had of a processor: they differ where others run, too.
 */
public class Authorize {
    private StandardAuthorizer authorizer;
    private Map<Uuid, StandardAcl> rules;
    private Set<StandardAcl> seen;
    private boolean loaded;

    public static void main(String[] args) throws Exception {
        if (args.length >= 4 && args[0].equals("--time")) {
            for (int i = 3; i < args.length; i++) {
                time(args[1], Double.parseDouble(args[2]), Integer.parseInt(args[i]));
            }
            return;
        }
        if (args.length > 0) {
            System.err.println("usage: Authorize [--time ranges|topics|mixed|nested SECONDS COUNT...]");
            System.exit(2);
        }
        Authorize it = new Authorize();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer = it.obey(line.split("\t", -1));
            if (answer != null) {
                System.out.println(answer);
            }
        }
    }

    private String obey(String[] w) throws Exception {
        switch (w[0]) {
            case "new":
                authorizer = authorizer(w[1], w[2]);
                rules = new HashMap<>();
                seen = new HashSet<>();
                loaded = false;
                return null;
            case "acl":
                put(rules, seen, new StandardAcl(ResourceType.fromString(w[1]), w[2], PatternType.fromString(w[3]), w[4], w[5],
                    AclOperation.fromString(w[6]), AclPermissionType.fromString(w[7])));
                return null;
            case "ask":
                load();
                return authorizer.authorize(context(w[1], w[2]), List.of(action(w[3], w[4], w[5]))).get(0).toString();
            case "any":
                load();
                return authorizer.authorizeByResourceType(context(w[1], w[2]), AclOperation.fromString(w[3]), ResourceType.fromString(w[4])).toString();
            default:
                throw new IllegalArgumentException("no command " + w[0]);
        }
    }

    /** Adds a rule that is not there yet: the authorizer refuses to load what is there twice. */
    private static void put(Map<Uuid, StandardAcl> rules, Set<StandardAcl> seen, StandardAcl rule) {
        if (seen.add(rule)) {
            rules.put(new Uuid(1, rules.size()), rule);
        }
    }

    private void load() {
        if (!loaded) {
            authorizer.loadSnapshot(rules);
            authorizer.completeInitialLoad();
            loaded = true;
        }
    }

    private static StandardAuthorizer authorizer(String superUsers, String allowEveryone) {
        StandardAuthorizer a = new StandardAuthorizer();
        Map<String, Object> configs = new HashMap<>();
        configs.put("node.id", "1");
        configs.put(StandardAuthorizer.SUPER_USERS_CONFIG, superUsers);
        configs.put(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, allowEveryone);
        a.configure(configs);
        a.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        return a;
    }

    private static Action action(String operation, String type, String name) {
        return new Action(AclOperation.fromString(operation), new ResourcePattern(ResourceType.fromString(type), name, PatternType.LITERAL), 1, true, true);
    }

    private static RequestContext context(String principal, String address) throws Exception {
        int colon = principal.indexOf(':');
        return new RequestContext(new RequestHeader(ApiKeys.METADATA, (short) 12, "", 1), "", InetAddress.getByName(address),
            new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1)), new ListenerName("L"),
            SecurityProtocol.SASL_SSL, ClientInformation.EMPTY, false);
    }

    // Questions of the measurement: as many as ours asks, in turn.
    private static final int QUESTIONS = 1 << 15;

    private static void time(String shape, double seconds, int n) throws Exception {
        long began = System.nanoTime();
        StandardAuthorizer a = authorizer("User:admin", "false");
        Map<Uuid, StandardAcl> all = new HashMap<>(2 * n);
        Set<StandardAcl> seen = new HashSet<>(2 * n);
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < n; i++) {
            put(all, seen, rule(shape, i, random));
        }
        seen.clear();
        a.loadSnapshot(all);
        a.completeInitialLoad();
        int held = a.aclCount();
        double loading = (System.nanoTime() - began) / 1e9;

        Random r = new Random(7);
        RequestContext[] contexts = new RequestContext[QUESTIONS];
        List<Action>[] actions = actions();
        for (int i = 0; i < QUESTIONS; i++) {
            question(shape, r, n, i, contexts, actions);
        }
        run(a, contexts, actions, seconds / 2);
        long[] measured = run(a, contexts, actions, seconds);
        System.out.printf("{\"shape\":\"%s\",\"acls\":%d,\"distinct\":%d,\"decisions\":%d,\"allowed\":%d,\"ns_per_decision\":%.0f,\"cpu_ns_per_decision\":%.0f,"
            + "\"load_seconds\":%.1f}%n", shape, n, held, measured[0], measured[1], (double) measured[2] / measured[0],
            (double) measured[3] / measured[0], loading);
        System.out.flush();
    }

    @SuppressWarnings("unchecked")
    private static List<Action>[] actions() {
        return (List<Action>[]) new List<?>[QUESTIONS];
    }

    /** Decides for a time and returns how often, how often the answer was yes, and the nanoseconds it took: by the clock, and of a processor. */
    private static long[] run(StandardAuthorizer a, RequestContext[] contexts, List<Action>[] actions, double seconds) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long cpu = threads.getCurrentThreadCpuTime();
        long began = System.nanoTime();
        long until = began + (long) (seconds * 1e9);
        long decisions = 0;
        long allowed = 0;
        long now;
        int batch = 1;
        do {
            for (int i = 0; i < batch; i++) {
                int q = (int) (decisions % QUESTIONS);
                if (a.authorize(contexts[q], actions[q]).get(0) == AuthorizationResult.ALLOWED) {
                    allowed++;
                }
                decisions++;
            }
            now = System.nanoTime();
            if (batch < 1024 && (now - began) / decisions < 100_000) {
                batch *= 2; // the clock is not what is measured
            }
        } while (now < until);
        return new long[] {decisions, allowed, now - began, threads.getCurrentThreadCpuTime() - cpu};
    }

    private static String address(int n) {
        return "10." + (n >> 16 & 255) + "." + (n >> 8 & 255) + "." + (n & 255);
    }

    private static StandardAcl topicRule(String name, PatternType pattern, int user, String host, AclOperation operation) {
        return new StandardAcl(ResourceType.TOPIC, name, pattern, "User:u" + user, host, operation, AclPermissionType.ALLOW);
    }

    private static final int NESTED = 25;

    private static StandardAcl rule(String shape, int i, SplittableRandom r) {
        switch (shape) {
            case "ranges":
                return topicRule("t", PatternType.LITERAL, i % 97, address(i * 2) + "/32", AclOperation.READ);
            case "topics":
                return topicRule("topic-" + i / 10, PatternType.LITERAL, i % 10, "*", AclOperation.READ);
            case "mixed":
                return mixed(i, r);
            case "nested":
                return topicRule(String.format("%025d", i / NESTED % 4).substring(0, 1 + i % NESTED), PatternType.PREFIXED, 1,
                    address((i / NESTED / 4 % (1 << 16)) << 8) + "/24", AclOperation.WRITE);
            default:
                throw new IllegalArgumentException("no shape " + shape);
        }
    }

    private static StandardAcl mixed(int i, SplittableRandom r) {
        int team = i % 1000;
        String host = "10." + team % 256 + "." + r.nextInt(256) + ".0/24";
        switch (r.nextInt(4)) {
            case 0:
                host = "*";
                break;
            case 1:
                host = String.format("2001:db8:%x:%x::/64", team, r.nextInt(1 << 16));
                break;
            default:
        }
        if (i < 20) {
            return new StandardAcl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*", "192.168." + i + ".0/24", AclOperation.ALL, AclPermissionType.DENY);
        }
        if (i % 5 == 0) {
            String name = String.format("team-%03d.app-%d.", team, r.nextInt(50));
            return topicRule(name.substring(0, r.nextInt(4) * (name.length() - 8) / 3 + 8), PatternType.PREFIXED, r.nextInt(5000), host, AclOperation.WRITE);
        }
        return topicRule(String.format("team-%03d.app-%d.topic-%d", team, r.nextInt(50), r.nextInt(20)), PatternType.LITERAL, r.nextInt(5000), host,
            AclOperation.READ);
    }

    private static void question(String shape, Random r, int n, int i, RequestContext[] contexts, List<Action>[] actions) throws Exception {
        String who;
        String from;
        String name;
        switch (shape) {
            case "ranges":
                int address = r.nextInt(2 * n);
                who = "u" + address / 2 % 97;
                from = address(address);
                name = "t";
                break;
            case "topics":
                who = "u" + r.nextInt(20);
                from = address(1);
                name = "topic-" + r.nextInt(n / 10);
                break;
            case "mixed":
                int team = r.nextInt(1000);
                who = "u" + r.nextInt(5000);
                from = "10." + team % 256 + "." + r.nextInt(256) + ".7";
                name = String.format("team-%03d.app-%d.topic-%d", team, r.nextInt(50), r.nextInt(20));
                break;
            default:
                who = "u1";
                from = address((r.nextInt(Math.max(1, n / NESTED / 4)) << 8) + 9);
                name = String.format("%025d", r.nextInt(4)) + "-tail";
        }
        contexts[i] = context("User:" + who, from);
        actions[i] = List.of(new Action(AclOperation.READ, new ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL), 1, false, false));
    }
}
