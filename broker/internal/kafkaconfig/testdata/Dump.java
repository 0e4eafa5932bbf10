// Dump prints broker-4.4.0.json: every broker config of Apache Kafka as its own
// classes define it. With org.apache.kafka:kafka_2.13:4.4.0 and what it needs on
// the class path:
//
//   java -cp "$CP" testdata/Dump.java > broker-4.4.0.json
import java.lang.reflect.Field;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;

public class Dump {
    static String quote(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    static Object field(Object o, String name) throws Exception {
        for (Class<?> c = o.getClass(); c != null; c = c.getSuperclass()) {
            try {
                Field f = c.getDeclaredField(name);
                f.setAccessible(true);
                return f.get(o);
            } catch (NoSuchFieldException e) { /* look in the superclass */ }
        }
        return null;
    }

    // The first sentence, without markup.
    static String sentence(String doc) {
        if (doc == null) return "";
        String t = doc.replaceAll("<[^>]*>", "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("\\s+", " ").trim();
        java.util.regex.Matcher m = java.util.regex.Pattern.compile("(?<!e\\.g|i\\.e|etc)\\.( |$)").matcher(t);
        if (m.find()) t = t.substring(0, m.start());
        if (t.length() > 200) t = t.substring(0, t.lastIndexOf(' ', 200)) + " ...";
        return t;
    }

    public static void main(String[] args) throws Exception {
        ConfigDef def = kafka.server.KafkaConfig.configDef();
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        List<String> rows = new ArrayList<>();
        Map<String, ConfigDef.ConfigKey> keys = new TreeMap<>(DynamicConfig.Broker.configKeys());
        keys.putAll(def.configKeys());
        for (ConfigDef.ConfigKey k : keys.values()) {
            StringJoiner j = new StringJoiner(",", "{", "}");
            j.add("\"name\":" + quote(k.name));
            j.add("\"type\":" + quote(k.type.name()));
            if (!k.hasDefault()) j.add("\"required\":true");
            else if (k.defaultValue != null) j.add("\"default\":" + quote(ConfigDef.convertToString(k.defaultValue, k.type)));
            j.add("\"importance\":" + quote(k.importance.name()));
            if (k.validator != null) {
                if (!k.validator.toString().isBlank()) j.add("\"valid\":" + quote(k.validator.toString()));
                if (k.validator instanceof ConfigDef.Range) {
                    Object lo = field(k.validator, "min"), hi = field(k.validator, "max");
                    if (lo != null) j.add("\"min\":" + lo);
                    if (hi != null) j.add("\"max\":" + hi);
                }
                Object strings = k.validator;
                if (k.validator instanceof ConfigDef.ValidList) {
                    strings = field(k.validator, "validString");
                    j.add("\"unique\":true");
                    if (!(Boolean) field(k.validator, "isEmptyAllowed")) j.add("\"nonEmpty\":true");
                }
                Collection<?> choices = (Collection<?>) field(strings, "validStrings");
                if (choices != null && !choices.isEmpty()) {
                    StringJoiner v = new StringJoiner(",", "[", "]");
                    for (Object c : choices) v.add(quote(String.valueOf(c)));
                    j.add("\"choices\":" + v);
                    if (strings instanceof ConfigDef.CaseInsensitiveValidString) j.add("\"anyCase\":true");
                }
                if (k.validator.getClass().getSimpleName().equals("NonEmptyString")) j.add("\"nonEmpty\":true");
            }
            j.add("\"mode\":" + quote(modes.getOrDefault(k.name, "read-only")));
            if (DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS.contains(k.name)) j.add("\"security\":true");
            if (!def.names().contains(k.name)) j.add("\"onlyDynamic\":true");
            if (k.internalConfig) j.add("\"internal\":true");
            j.add("\"doc\":" + quote(sentence(k.documentation)));
            rows.add("  " + j);
        }
        System.out.println("[");
        System.out.println(String.join(",\n", rows));
        System.out.println("]");
    }
}
