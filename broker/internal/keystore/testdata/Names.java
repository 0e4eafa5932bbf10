// Names prints names.json: how Java's X500Principal.getName writes subjects, given
// as DER, most of them composed at random from a fixed seed.
//
//   java Names.java > names.json
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;
import javax.security.auth.x500.X500Principal;

public class Names {
    static final String[] OIDS = { // as DER content
        "550403", "550406", "550407", "550408", "55040a", "55040b", "550409", "0992268993f22c640119", "0992268993f22c640101", // CN C L ST O OU STREET DC UID
        "550405", "2a864886f70d010901", "55040c", "55042e", "550404", "2b0601040182371401", "2a03", "550411", // serial, email, title, dnq, surname, MS, 1.2.3, postal code
    };
    static final int[] TAGS = {0x0c, 0x13, 0x14, 0x16, 0x1e, 0x1c, 0x1b, 0x12, 0x04, 0x02, 0x1a};
    static final String[] TEXTS = {"Alice", "", " ", "  a  ", "#x", "a#b", "a,b", "a+b", "a\"b", "a\\b", "<a>", "a;b", "a=b", "\u00e4\u4e2d", "\ud83d\ude00", "a\rb", "\r", "\na", "a\u0000b", "*.example.com", "a@b", "a_b", "'(-./:?)", "5"};

    static byte[] tlv(int tag, byte[]... parts) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (byte[] p : parts) body.writeBytes(p);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write(tag);
        int n = body.size();
        if (n >= 256) { out.write(0x82); out.write(n >> 8); }
        else if (n >= 128) out.write(0x81);
        out.write(n);
        out.writeBytes(body.toByteArray());
        return out.toByteArray();
    }

    static byte[] value(int tag, String text) {
        if (tag == 0x02) return new byte[] {2, 1, 42};
        if (tag == 0x1e) return tlv(tag, text.getBytes(StandardCharsets.UTF_16BE));
        if (tag == 0x14) return tlv(tag, text.getBytes(StandardCharsets.ISO_8859_1));
        return tlv(tag, text.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] ava(String oid, int tag, String text) { return tlv(0x30, tlv(6, HexFormat.of().parseHex(oid)), value(tag, text)); }

    static String q(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    public static void main(String[] args) {
        Random r = new Random(7);
        List<byte[]> ders = new ArrayList<>();
        ders.add(tlv(0x30));
        for (String text : TEXTS) ders.add(tlv(0x30, tlv(0x31, ava(OIDS[0], 0x0c, text))));
        for (String oid : OIDS) ders.add(tlv(0x30, tlv(0x31, ava(oid, 0x13, "Alice"))));
        for (int tag : TAGS) ders.add(tlv(0x30, tlv(0x31, ava(OIDS[0], tag, "abc"))));
        for (int i = 0; i < 800; i++) {
            List<byte[]> rdns = new ArrayList<>();
            for (int n = 1 + r.nextInt(4); n > 0; n--) {
                List<byte[]> avas = new ArrayList<>();
                for (int m = r.nextInt(4) == 0 ? 2 + r.nextInt(2) : 1; m > 0; m--) avas.add(ava(OIDS[r.nextInt(OIDS.length)], r.nextInt(3) > 0 ? 0x0c : TAGS[r.nextInt(TAGS.length)], TEXTS[r.nextInt(TEXTS.length)]));
                rdns.add(tlv(0x31, avas.toArray(new byte[0][])));
            }
            ders.add(tlv(0x30, rdns.toArray(new byte[0][])));
        }
        List<String> out = new ArrayList<>();
        int skipped = 0;
        for (byte[] der : ders) {
            try {
                out.add("{\"der\":\"" + HexFormat.of().formatHex(der) + "\",\"name\":" + q(new X500Principal(der).getName()) + "}");
            } catch (RuntimeException e) {
                skipped++;
            }
        }
        System.err.println(skipped + " refused by Java");
        System.out.println("[\n" + String.join(",\n", out) + "\n]");
    }
}
