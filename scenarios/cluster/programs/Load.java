import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's own clients as a load: an idempotent producer that waits for every acknowledgement, and a consumer in a group of its own.
 *
 * <pre>
 * Load PRODUCER.properties CONSUMER.properties BOOTSTRAP BOOTSTRAP TOPIC PARTITIONS GROUP PACE_MS
 * </pre>
 *
 * <p>Records are numbered from 0 on and go to one partition after another. Lines on standard output tell what became of each:
 *
 * <pre>
 * acked   PARTITION NUMBER OFFSET   the brokers have it; an offset below 0 is not known
 * refused PARTITION NUMBER TEXT     nobody knows whether they have it
 * got     VALUE                     the consumer has it
 * settled                           the answer to the line "stop" on standard input: nothing is produced any more, and every record had an answer
 * trouble TEXT                      the consumer was told something by its library, and goes on
 * </pre>
 *
 * <p>It ends with its standard input.
 */
public final class Load {
    private static final String PREFIX = "java-";
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static volatile boolean stopped;
    private static volatile boolean over;

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1); // half a load would look like a broker that does not answer
        });
        String topic = args[4];
        int partitions = Integer.parseInt(args[5]);
        Properties consuming = config(args[1], args[3]);
        consuming.put("group.id", args[6]);
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("session.timeout.ms", "10000");
        consuming.put("heartbeat.interval.ms", "1000");
        Thread consumer = new Thread(() -> consume(consuming, topic));
        consumer.start();

        Properties producing = config(args[0], args[2]);
        producing.put("acks", "all");
        producing.put("enable.idempotence", "true");
        KafkaProducer<String, String> producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        Thread sending = new Thread(() -> produce(producer, topic, partitions, Long.parseLong(args[7])));
        sending.start();

        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("stop")) {
                stopped = true;
                sending.join();
                producer.flush();
                say("settled");
            }
        }
        stopped = true;
        over = true;
        producer.close(Duration.ofSeconds(1));
        consumer.join(3000);
        Runtime.getRuntime().halt(0); // what waits for a broker must not keep it
    }

    // config is what both clients have in common: they notice soon that a broker is gone, and do not wait long before they try again.
    private static Properties config(String file, String bootstrap) throws Exception {
        Properties p = new Properties();
        try (FileInputStream in = new FileInputStream(file)) {
            p.load(in);
        }
        p.put("bootstrap.servers", bootstrap);
        p.put("request.timeout.ms", "5000");
        p.put("retry.backoff.ms", "100");
        p.put("retry.backoff.max.ms", "500");
        p.put("reconnect.backoff.ms", "100");
        p.put("reconnect.backoff.max.ms", "500");
        p.put("socket.connection.setup.timeout.ms", "2000");
        p.put("metadata.max.age.ms", "5000");
        return p;
    }

    private static void produce(KafkaProducer<String, String> producer, String topic, int partitions, long pace) {
        for (int n = 0; !stopped; n++) {
            int number = n;
            int partition = n % partitions;
            producer.send(new ProducerRecord<>(topic, partition, null, PREFIX + n), (where, problem) -> {
                if (problem == null) {
                    say("acked " + partition + " " + number + " " + where.offset());
                } else {
                    say("refused " + partition + " " + number + " " + text(problem));
                }
            });
            pause(pace);
        }
    }

    private static void consume(Properties config, String topic) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!over) {
                try {
                    for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                        say("got " + r.value());
                    }
                } catch (WakeupException e) {
                    return;
                } catch (RuntimeException e) {
                    say("trouble " + text(e));
                    pause(200);
                }
            }
        }
    }

    private static String text(Exception e) {
        return e.toString().replace('\n', ' ');
    }

    private static synchronized void say(String line) {
        OUT.println(line);
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
