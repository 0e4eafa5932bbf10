import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Reads the beans of another JVM on this machine, whose process id is the argument. For each line with a pattern of names of beans it prints a line:
 * a JSON object of the beans' names, each with its attributes that are numbers, as text.
 */
class Beans {
    public static void main(String[] args) throws Exception {
        var machine = com.sun.tools.attach.VirtualMachine.attach(args[0]);
        String address = machine.startLocalManagementAgent();
        machine.detach();
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            var beans = connector.getMBeanServerConnection();
            var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line; (line = in.readLine()) != null; ) {
                var all = new StringJoiner(",", "{", "}");
                for (ObjectName name : new TreeSet<>(beans.queryNames(new ObjectName(line), null))) {
                    all.add(quoted(name.getCanonicalName()) + ":" + attributes(beans, name));
                }
                out.println(all);
            }
        }
    }

    private static String attributes(MBeanServerConnection beans, ObjectName name) {
        var values = new TreeMap<String, String>();
        try {
            for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
                Object value = beans.getAttribute(name, attribute.getName());
                if (value instanceof Number) {
                    values.put(attribute.getName(), value.toString());
                }
            }
        } catch (Exception e) {
            // The bean has gone since it was listed.
            return "{}";
        }
        var all = new StringJoiner(",", "{", "}");
        values.forEach((k, v) -> all.add(quoted(k) + ":" + quoted(v)));
        return all.toString();
    }

    private static String quoted(String s) {
        return '"' + s.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
