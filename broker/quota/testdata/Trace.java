// Trace prints connections-4.4.0.txt: what Apache Kafka's own ConnectionQuotas
// does with random connections under random rates, on a clock that is not real.
// With org.apache.kafka:kafka_2.13:4.4.0 and what it needs on the class path:
//
//   java -cp "$CP" testdata/Trace.java > connections-4.4.0.txt
//
// Metrics are read at the end of a scenario only: Kafka's change when they are
// read.
import com.yammer.metrics.core.Meter;
import java.net.InetAddress;
import java.util.*;
import java.util.concurrent.TimeUnit;
import kafka.network.ConnectionQuotas;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.ConnectionThrottledException;
import org.apache.kafka.network.TooManyConnectionsException;

public class Trace {
    static final int UNLIMITED = Integer.MAX_VALUE;

    // Clock stands still, but while a connection waits every look at it is one
    // millisecond later.
    static class Clock implements Time {
        long ms = 1_700_000_000_000L;
        boolean waiting;
        public synchronized long milliseconds() { return waiting ? ++ms : ms; }
        public synchronized long nanoseconds() { waiting = !waiting; return ms * 1_000_000; } // asked for when a wait begins and when it ends
        public long hiResClockMs() { return ms; }
        public void sleep(long d) { ms += d; }
    }

    static int pick(Random r, int... of) { return of[r.nextInt(of.length)]; }

    static final String[] LISTENERS = {"EXTERNAL", "ADMIN", "INTERNAL"};
    static final String[] ADDRESSES = {"10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "10.0.0.4"};

    public static void main(String[] args) throws Exception {
        java.io.PrintStream out = System.out;
        System.setOut(System.err);
        for (int seed = 0; seed < 20; seed++) scenario(new Random(seed), out);
        System.exit(0);
    }

    static void scenario(Random r, java.io.PrintStream out) throws Exception {
        int samples = pick(r, 11, 11, 2, 3, 1), size = pick(r, 1, 1, 2), rate = pick(r, UNLIMITED, UNLIMITED, 10, 25, 0), perIP = pick(r, UNLIMITED, 5, 40);
        Map<String, String> p = new HashMap<>();
        p.put("process.roles", "broker,controller"); p.put("node.id", "1");
        p.put("controller.quorum.voters", "1@localhost:9"); p.put("controller.listener.names", "CONTROLLER");
        p.put("listeners", "EXTERNAL://:1,ADMIN://:2,INTERNAL://:3,CONTROLLER://:9");
        p.put("listener.security.protocol.map", "EXTERNAL:PLAINTEXT,ADMIN:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT");
        p.put("advertised.listeners", "EXTERNAL://h:1,ADMIN://h:2,INTERNAL://h:3");
        p.put("inter.broker.listener.name", "INTERNAL");
        p.put("quota.window.num", "" + samples); p.put("quota.window.size.seconds", "" + size);
        p.put("max.connection.creation.rate", "" + rate); p.put("max.connections.per.ip", "" + perIP);
        out.printf("scenario %d %d %d %d%n", samples, size * 1000, rate, perIP);
        KafkaConfig config = new KafkaConfig(p);
        Clock clock = new Clock();
        Metrics metrics = new Metrics(clock);
        ConnectionQuotas q = new ConnectionQuotas(config, clock, metrics);
        Map<String, Meter> meters = new HashMap<>();
        for (String l : LISTENERS) {
            q.addListener(config, new ListenerName(l));
            meters.put(l, com.yammer.metrics.Metrics.defaultRegistry().newMeter(Trace.class, l + r.nextLong(), "blocked", TimeUnit.NANOSECONDS));
            setListener(q, l, pick(r, UNLIMITED, 7, 16, 30), out);
        }
        setIP(q, null, pick(r, UNLIMITED, UNLIMITED, 3, 12), out);
        Thread waker = new Thread(() -> { // wakes who waits, at once and again
            while (!Thread.interrupted()) q.updateBrokerMaxConnections(UNLIMITED);
        });
        waker.setDaemon(true);
        waker.start();
        List<String[]> open = new ArrayList<>();
        int busy = pick(r, 3, 50, 300), until = 150 + r.nextInt(150);
        for (int i = 0; i < until; i++) {
            if (r.nextInt(4) == 0) {
                int d = r.nextInt(20) == 0 ? r.nextInt(30_000) : r.nextInt(busy);
                clock.ms += d;
                out.printf("pass %d%n", d);
            }
            switch (r.nextInt(60)) {
                case 0: {
                    int v = pick(r, UNLIMITED, 10, 25, 0);
                    q.updateBrokerMaxConnectionRate(v);
                    out.printf("rate %d%n", v);
                    break;
                }
                case 1: setListener(q, LISTENERS[r.nextInt(3)], pick(r, UNLIMITED, 7, 16, 30), out); break;
                case 2: setIP(q, null, pick(r, UNLIMITED, 3, 12), out); break;
                case 3: setIP(q, ADDRESSES[r.nextInt(4)], pick(r, UNLIMITED, 0, 2, 7, 16), out); break;
                case 4: setIP(q, ADDRESSES[r.nextInt(4)], -1, out); break;
                case 5: case 6: case 7: case 8: case 9: case 10: case 11: case 12: case 13: case 14: {
                    if (open.isEmpty()) break;
                    int at = r.nextInt(open.size());
                    String[] c = open.remove(at);
                    q.dec(new ListenerName(c[0]), InetAddress.getByName(c[1]));
                    out.printf("close %d%n", at);
                    break;
                }
                default: {
                    String l = LISTENERS[r.nextInt(3)], a = ADDRESSES[r.nextInt(4)];
                    long before = clock.ms;
                    String outcome = "open";
                    try {
                        q.inc(new ListenerName(l), InetAddress.getByName(a), meters.get(l));
                    } catch (ConnectionThrottledException e) {
                        outcome = "held " + e.throttleTimeMs;
                    } catch (TooManyConnectionsException e) {
                        outcome = "many " + e.count;
                    }
                    if (!outcome.startsWith("held")) open.add(new String[] {l, a});
                    out.printf("connect %s %s waits %d %s%n", l, a, clock.ms - before, outcome);
                }
            }
        }
        waker.interrupt();
        waker.join();
        out.printf("broker-rate %s%n", value(metrics, "broker-connection-accept-rate", Map.of()));
        for (String l : LISTENERS) {
            Map<String, String> tags = Map.of("listener", l);
            out.printf("listener %s rate %s throttle %s ip-throttle %s blocked %d%n", l, value(metrics, "connection-accept-rate", tags),
                value(metrics, "connection-accept-throttle-time", tags), value(metrics, "ip-connection-accept-throttle-time", tags), meters.get(l).count());
        }
        for (String a : ADDRESSES)
            out.printf("ip %s connections %d rate %s quota %d%n", a, q.get(InetAddress.getByName(a)),
                value(metrics, "connection-accept-rate", Map.of("ip", a)), q.connectionRateForIp(InetAddress.getByName(a)));
    }

    static Object value(Metrics metrics, String name, Map<String, String> tags) {
        KafkaMetric m = metrics.metric(metrics.metricName(name, "socket-server-metrics", "", tags));
        return m == null ? "none" : m.metricValue();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setListener(ConnectionQuotas q, String name, int rate, java.io.PrintStream out) {
        ((ConnectionQuotas.ListenerConnectionQuota) q.maxConnectionsPerListener().apply(new ListenerName(name)))
            .reconfigure(Map.of("max.connection.creation.rate", "" + rate));
        out.printf("listener-rate %s %d%n", name, rate);
    }

    static void setIP(ConnectionQuotas q, String ip, int rate, java.io.PrintStream out) throws Exception {
        q.updateIpConnectionRateQuota(scala.Option.apply(ip == null ? null : InetAddress.getByName(ip)),
            rate < 0 ? scala.Option.empty() : scala.Option.apply((Object) rate));
        out.printf("ip-rate %s %d%n", ip == null ? "default" : ip, rate);
    }
}
