// Apache Kafka's own client for Java as a program of the tests of clients; README.md in the folder above has the words. It is
// compiled against the jar files of a Kafka release and needs nothing else: jackson is one of them.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ABORTED = "aborted-";

    private final JsonNode request;
    private final int count;
    private final int timeout;
    private final long deadline;
    private volatile boolean over;

    private Client(JsonNode request) {
        this.request = request;
        this.count = request.path("count").asInt();
        this.timeout = request.path("timeout_ms").asInt(30_000);
        this.deadline = System.currentTimeMillis() + timeout;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) { // a virtual machine is too slow to start for each
            long began = System.currentTimeMillis();
            try {
                new Client(JSON.readTree(line)).run(in);
            } catch (Throwable e) {
                fail(e);
            }
            ObjectNode done = JSON.createObjectNode();
            print(done.put("done", true).put("ms", System.currentTimeMillis() - began));
        }
        Runtime.getRuntime().halt(0); // threads of clients that wait for a broker would keep it
    }

    private void run(BufferedReader in) throws Exception {
        switch (text("op")) {
            case "version" ->
                print(JSON.createObjectNode().put("name", "kafka-clients").put("version", version()));
            case "metadata" -> metadata();
            case "admin" -> admin();
            case "produce" -> produce();
            case "transact" -> transact();
            case "consume" -> consume();
            case "loop" -> loop(in);
            default -> throw new IllegalArgumentException("there is no op " + text("op"));
        }
    }

    // version is what the client tells brokers of itself: its properties file has it.
    private static String version() throws IOException {
        Properties p = new Properties();
        try (var in = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            p.load(in);
        }
        return p.getProperty("version");
    }

    private void metadata() throws Exception {
        try (Admin admin = admin(timeout)) {
            ok(o -> o.put("brokers", get(admin.describeCluster().nodes()).size()));
        }
    }

    private void admin() throws Exception {
        String topic = text("topic");
        try (Admin admin = admin(timeout)) {
            get(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all());
            ok(o -> o.put("step", "create"));
            int partitions = get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
            if (partitions != 1) {
                throw new IllegalStateException(topic + " has " + partitions + " partitions");
            }
            ok(o -> o.put("step", "describe"));
            get(admin.deleteTopics(List.of(topic)).all());
            ok(o -> o.put("step", "delete"));
        }
    }

    private void produce() throws Exception {
        try (KafkaProducer<String, String> producer = producer(false, timeout)) {
            send(producer, "");
            ok(o -> o.put("produced", count).put("idempotent", true));
        }
    }

    private void transact() throws Exception {
        try (KafkaProducer<String, String> producer = producer(true, timeout)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "");
            producer.commitTransaction();
            producer.beginTransaction();
            send(producer, ABORTED);
            producer.abortTransaction();
            ok(o -> o.put("committed", count).put("aborted", count));
        }
    }

    private void send(KafkaProducer<String, String> producer, String prefix) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String value = text("client_id") + "-" + i;
            value += " ".repeat(Math.max(0, request.path("size").asInt() - value.length()));
            sent.add(producer.send(new ProducerRecord<>(text("topic"), prefix + value)));
        }
        for (Future<RecordMetadata> f : sent) {
            get(f);
        }
    }

    private void consume() throws Exception {
        int read = 0;
        int aborted = 0;
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.subscribe(List.of(text("topic")));
            while (read < count) {
                if (System.currentTimeMillis() > deadline) {
                    throw new java.util.concurrent.TimeoutException("read " + read + " of " + count + " records in " + timeout + " ms");
                }
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    read++;
                    if (r.value().startsWith(ABORTED)) {
                        aborted++;
                    }
                }
            }
            consumer.commitSync(Duration.ofMillis(timeout));
        }
        ObjectNode line = JSON.createObjectNode();
        print(line.put("ok", true).put("consumed", read).put("aborted", aborted));
    }

    // loop sends and reads one record a round. What the library throws out of poll or send leaves its client usable, unless it
    // cannot be made.
    private void loop(BufferedReader in) throws Exception {
        Thread watch = new Thread(() -> {
            try {
                while (in.readLine() != null) { }
            } catch (IOException e) {
                // it has ended
            }
            over = true;
        });
        watch.setDaemon(true);
        watch.start();
        long pause = request.path("pause_ms").asLong(100);
        long pid = ProcessHandle.current().pid();
        try (KafkaProducer<String, String> producer = producer(false, 10_000); KafkaConsumer<String, String> consumer = consumer()) {
            consumer.subscribe(Collections.singletonList(text("topic")));
            for (int n = 0; !over && System.currentTimeMillis() < deadline; n++) {
                String value = pid + "-" + n;
                try {
                    round(producer, consumer, value);
                    ObjectNode line = JSON.createObjectNode();
                    print(line.put("ok", true).put("n", n));
                } catch (Exception e) {
                    if (!over) {
                        fail(e);
                    }
                }
                Thread.sleep(pause);
            }
            consumer.close(Duration.ofSeconds(2));
            producer.close(Duration.ofSeconds(1));
        }
    }

    private void round(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, String value) throws Exception {
        long end = System.currentTimeMillis() + 10_000;
        producer.send(new ProducerRecord<>(text("topic"), value)).get(10, TimeUnit.SECONDS);
        while (!over && System.currentTimeMillis() < end) {
            boolean found = false;
            for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                found |= r.value().equals(value);
            }
            if (found) {
                return;
            }
        }
        throw new java.util.concurrent.TimeoutException("the record did not come back within 10 s");
    }

    private Properties common(int within) throws IOException {
        Properties p = new Properties();
        p.put("bootstrap.servers", text("bootstrap"));
        p.put("security.protocol", text("protocol"));
        p.put("client.id", text("client_id"));
        p.put("request.timeout.ms", Math.min(within, 30_000));
        p.put("default.api.timeout.ms", within);
        if (text("protocol").endsWith("SSL")) {
            p.put("ssl.truststore.type", "PEM");
            p.put("ssl.truststore.location", text("ca"));
            if (!text("cert").isEmpty()) {
                p.put("ssl.keystore.type", "PEM");
                p.put("ssl.keystore.key", Files.readString(Path.of(text("key"))));
                p.put("ssl.keystore.certificate.chain", Files.readString(Path.of(text("cert"))));
            }
        }
        if (text("protocol").startsWith("SASL")) {
            String module = text("mechanism").equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            p.put("sasl.mechanism", text("mechanism"));
            p.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\"" + text("user")
                + "\" password=\"" + text("password") + "\";");
        }
        return p;
    }

    private Admin admin(int within) throws IOException {
        return Admin.create(common(within));
    }

    private KafkaProducer<String, String> producer(boolean transactional, int within) throws IOException {
        Properties p = common(within);
        p.put("acks", "all");
        p.put("linger.ms", 0);
        p.put("max.block.ms", within);
        p.put("delivery.timeout.ms", within);
        p.put("request.timeout.ms", within);
        if (transactional) {
            p.put("transactional.id", text("txid"));
            p.put("transaction.timeout.ms", within);
        }
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer() throws IOException {
        Properties p = common(timeout);
        p.put("group.id", text("group"));
        p.put("auto.offset.reset", "earliest");
        p.put("isolation.level", "read_committed");
        Optional.ofNullable(request.get("group_protocol")).ifPresent(v -> p.put("group.protocol", v.asText()));
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    private <T> T get(Future<T> f) throws Exception {
        return f.get(Math.max(1, deadline - System.currentTimeMillis()), TimeUnit.MILLISECONDS);
    }

    private String text(String field) {
        return request.path(field).asText("");
    }

    private interface Fill {
        void into(ObjectNode line) throws Exception;
    }

    private static void ok(Fill fields) throws Exception {
        ObjectNode line = JSON.createObjectNode().put("ok", true);
        fields.into(line);
        print(line);
    }

    private static void fail(Throwable e) {
        Throwable cause = e;
        while (cause instanceof ExecutionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        ObjectNode line = JSON.createObjectNode();
        line.put("error", cause.getClass().getSimpleName()).put("text", String.valueOf(cause.getMessage()));
        if (cause.getCause() != null) {
            line.put("text", cause.getMessage() + " (" + cause.getCause() + ")");
        }
        print(line.put("retriable", cause instanceof RetriableException));
    }

    private static synchronized void print(ObjectNode line) {
        System.out.println(line);
        System.out.flush();
    }
}
