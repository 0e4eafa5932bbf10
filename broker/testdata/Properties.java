// Properties prints properties.json: what java.util.Properties reads from texts
// composed at random from a fixed seed.
//
//   java Properties.java > properties.json
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;

public class Properties {
    static String q(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    public static void main(String[] args) throws Exception {
        String[] pieces = {"a", "b", "key", "value", "=", ":", " ", "\t", "\n", "\n", "\r\n", "\r", "\\", "\\\n", "\\\r\n", "#", "!", "\\u0041", "\\n", "\\t", "\\=", "\\:", "\\ ", "\\\\", "\u00e9", "${x}", "\f", "\\#", "x.y=z\n", "  ", "\\q"};
        Random r = new Random(3);
        List<String> out = new ArrayList<>();
        List<String> texts = new ArrayList<>(List.of("", "\n", "#", "a", "a=b", "a b", "a : b", " a = b ", "a\\\n  b=c", "a=b\\\n\n", "a=b\\\n#c\nd=e", "#a\\\nb=c", "=a", " = a", "a=\\\n", "a==b", "a=:b", "a := b", "\\=a=b", "a=b\\\\\nc=d", "a=b\\", "a=1\na=2"));
        for (int i = 0; i < 1500; i++) {
            StringBuilder b = new StringBuilder();
            for (int n = 1 + r.nextInt(10); n > 0; n--) b.append(pieces[r.nextInt(pieces.length)]);
            texts.add(b.toString());
        }
        for (String text : texts) {
            java.util.Properties p = new java.util.Properties();
            try {
                p.load(new ByteArrayInputStream(text.getBytes(StandardCharsets.ISO_8859_1)));
            } catch (IllegalArgumentException e) {
                continue;
            }
            StringJoiner j = new StringJoiner(",", "{", "}");
            for (String k : new TreeSet<>(p.stringPropertyNames())) j.add(q(k) + ":" + q(p.getProperty(k)));
            out.add("{\"text\":" + q(text) + ",\"properties\":" + j + "}");
        }
        System.out.println("[\n" + String.join(",\n", out) + "\n]");
    }
}
