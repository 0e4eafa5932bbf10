// Blocked prints meter-2.2.0.txt: what a Meter of the yammer metrics that Kafka
// has reads, on a clock that is not real. Times and marks are milliseconds. With
// com.yammer.metrics:metrics-core:2.2.0 and what it needs on the class path:
//
//   java -cp "$CP" testdata/Blocked.java > meter-2.2.0.txt
import com.yammer.metrics.core.Clock;
import com.yammer.metrics.core.Meter;
import java.lang.reflect.*;
import java.util.Random;
import java.util.concurrent.*;

public class Blocked {
    static final long START = 1000;
    static long now = START;

    public static void main(String[] args) throws Exception {
        Clock clock = new Clock() {
            public long tick() { return now; }
            public long time() { return now / 1_000_000; }
        };
        Constructor<Meter> make = Meter.class.getDeclaredConstructor(ScheduledExecutorService.class, String.class, TimeUnit.class, Clock.class);
        make.setAccessible(true);
        ScheduledExecutorService ticker = Executors.newScheduledThreadPool(1);
        Meter m = make.newInstance(ticker, "blocked time", TimeUnit.NANOSECONDS, clock);
        ticker.shutdownNow(); // it is ticked here
        Method tick = Meter.class.getDeclaredMethod("tick");
        tick.setAccessible(true);
        Random r = new Random(7);
        long ms = 0, next = 5000;
        for (int i = 0; i < 80; i++) {
            ms += r.nextInt(i % 9 == 8 ? 400_000 : 9000);
            for (; next <= ms; next += 5000) {
                now = START + next * 1_000_000;
                tick.invoke(m);
            }
            now = START + ms * 1_000_000;
            if (r.nextInt(3) > 0) {
                long d = r.nextInt(2000);
                m.mark(d * 1_000_000);
                System.out.printf("mark %d %d%n", ms, d);
            } else {
                System.out.printf("read %d %d %s %s %s %s%n", ms, m.count(), m.meanRate(), m.oneMinuteRate(), m.fiveMinuteRate(), m.fifteenMinuteRate());
            }
        }
    }
}
