// Golden prints what Apache Kafka 4.4.0's own classes answer to mapping rules
// (rules.json) and JAAS texts (jaas.json), partly composed at random from a fixed
// seed. With org.apache.kafka:kafka_2.13:4.4.0 on the class path:
//
//   java -cp "$CP" Golden.java rules > rules.json
//   java -cp "$CP" Golden.java jaas > jaas.json
import java.lang.reflect.*;
import java.util.*;
import javax.security.auth.login.*;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class Golden {
    static String q(String s) {
        if (s == null) return "null";
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    static final String[] DNS = {
        "CN=kafka.example.com,OU=Eng,O=Acme,L=SF,ST=CA,C=US", "CN=Alice", "CN=alice,CN=bob,DC=x", "", "CN=a/b,O=\\,x", "CN=\u00c4rger\u00df,O=\u03a3\u03a3", "aXbXc",
    };

    static void rule(List<String> out, String rules) {
        StringJoiner names = new StringJoiner(",", "[", "]");
        String error = null;
        SslPrincipalMapper m = null;
        try {
            m = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException e) {
            error = e.getMessage();
        }
        if (m != null) for (String dn : DNS) {
            try {
                names.add("[" + q(m.getName(dn)) + "]");
            } catch (SslPrincipalMapper.NoMatchingRule e) {
                names.add("[]");
            } catch (Exception e) {
                names.add("[null," + q(e.getMessage()) + "]");
            }
        }
        out.add("{\"rules\":" + q(rules) + (error == null ? ",\"names\":" + names : ",\"error\":" + q(error)) + "}");
    }

    static void jaas(List<String> out, String text) throws Exception {
        Constructor<?> c = Class.forName("org.apache.kafka.common.security.JaasConfig").getDeclaredConstructors()[0];
        c.setAccessible(true);
        try {
            Configuration conf = (Configuration) c.newInstance("x", text);
            StringJoiner mods = new StringJoiner(",", "[", "]");
            for (AppConfigurationEntry e : conf.getAppConfigurationEntry("x")) {
                StringJoiner opts = new StringJoiner(",", "{", "}");
                for (Map.Entry<String, ?> o : new TreeMap<String, Object>(stringKeys(e.getOptions())).entrySet()) opts.add(q(o.getKey()) + ":" + q((String) o.getValue()));
                String flag = e.getControlFlag().toString();
                mods.add("{\"Class\":" + q(e.getLoginModuleName()) + ",\"Flag\":" + q(flag.substring(flag.indexOf(": ") + 2)) + ",\"Options\":" + opts + "}");
            }
            out.add("{\"text\":" + q(text) + ",\"modules\":" + mods + "}");
        } catch (InvocationTargetException e) {
            out.add("{\"text\":" + q(text) + ",\"error\":" + q(String.valueOf(e.getCause().getMessage())) + "}");
        }
    }

    static Map<String, Object> stringKeys(Map<String, ?> m) {
        Map<String, Object> r = new HashMap<>();
        for (Map.Entry<String, ?> e : m.entrySet()) r.put(String.valueOf(e.getKey()), e.getValue());
        return r;
    }

    static String compose(Random r, String[] pieces, int most) {
        StringBuilder b = new StringBuilder();
        for (int n = 1 + r.nextInt(most); n > 0; n--) b.append(pieces[r.nextInt(pieces.length)]);
        return b.toString();
    }

    public static void main(String[] args) throws Exception {
        List<String> out = new ArrayList<>();
        Random r = new Random(42);
        if (args[0].equals("rules")) {
            for (String s : new String[] {
                "DEFAULT", "", " ", ",", "default", "DEFAULT,", "DEFAULT DEFAULT", "RULE:.*/x/", "RULE:CN=(.*?)/$1/", "RULE:CN=(.*?),.*/$1/", "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/,DEFAULT",
                "RULE:^CN=(.*?),.*$/$1/L", "RULE:^CN=(.*?),.*$/$1/U, DEFAULT", "RULE:CN=(.*)/$1/L", "RULE:CN=(.*)/$1/U", "RULE:CN=(.*)/$12/", "RULE:CN=(.*)/$2/", "RULE:CN=(.*)/$23/", "RULE:CN=.*/$1/", "RULE:CN=.*/$0/", "RULE:CN=(.*)/$0$1/",
                "RULE:CN=(?<n>.*)/${n}/", "RULE:CN=(?<n>.*)/${m}/", "RULE:CN=(.*)/$/", "RULE:CN=(.*)/${1}/", "RULE:CN=(.*)/${/", "RULE:CN=(.*)/$x/", "RULE:CN=(.*)/a\\/b$1/", "RULE:CN=a\\/b,.*/slash/", "RULE:CN=(.*)/\\$1/",
                "RULE:CN=(.*)/$2-$3/", "RULE:CN=(.*)/$2$3$4/", "RULE:CN=(.*)/$01/", "RULE:CN=(.*)/$99999999999/", "RULE:.*/$1", "RULE:.*", "RULE:./x/L garbage", "RULE:./x/X", "RULE:a/b/L,RULE:", "RULE:.*/x/,junk", "junk,DEFAULT", "DEFAULT,junk/", "RULE:(/x/", "RULE:[/x/",
                "RULE:.*X.*/y/", "RULE:.*X.*|x/$0/", "RULE:[a-zX]*/z/", "RULE:(a|)(X*)(.*)/<$1$2$3>/", "RULE:\\p{Alpha}+/p/U", "RULE:[^=]*=\\w+/[$0]/", "RULE:(?i)cn=alice/low/", "RULE:(?s).*/s/", "RULE:x*|.*/-/", "RULE:\\b|.*/b/", "RULE:^|.*/c/", "RULE:$|.*/d/",
                "RULE:X??|.*/e/", "RULE:(X)?|.*/e$1/", "RULE:(?:a|X|b)*?c?/f/", "RULE:CN=\\QAlice\\E/q/", "RULE:\\x43\\u004E=.*/h/", "RULE:C{1}N{1,2}=.{0,}/r/", "RULE:CN=.*\\,x/k/", "RULE:CN=\\h*Alice/k/",
                "\tRULE:.*/a/ ,\n DEFAULT ", "RULE:.*//", "RULE:.*//L", "RULE:CN=(.*),O=(.*)/$2 $1/U", "RULE:CN=(.*),O=(.*)/$2 $1/L", "RULE:[\\]\\-a-zA-Z=]+/cl/", "RULE:[]CNAlice=]+/cl/", "RULE:\\00103N=.*/o/", "RULE:\\0103N=.*/o/",
            }) rule(out, s);
            String[] pat = {"CN=", "(.*)", "(.*?)", ".*", "a", "X", "[a-zA-Z=]*", "(a|)", "x*", "\\w", "\\b", "^", "$", "?", ",", "[^,]+", "(?:X|b)", "\\/", "(X)?", "|", "=", "Alice", "+?", "\\s*"};
            String[] rep = {"$1", "$0", "x", "$2", "$12", "\\/", "\\\\", "$", "-", "${n}", "$3", "U", "L"};
            String[] end = {"", "", "", "L", "U", "l", " L", "/"};
            for (int i = 0; i < 1500; i++) {
                StringBuilder b = new StringBuilder();
                for (int n = 1 + r.nextInt(2); n > 0; n--) {
                    if (b.length() > 0) b.append(r.nextInt(5) == 0 ? " " : ",");
                    if (r.nextInt(6) == 0) b.append("DEFAULT");
                    else b.append("RULE:").append(compose(r, pat, 5)).append("/").append(compose(r, rep, 3)).append("/").append(end[r.nextInt(end.length)]);
                }
                rule(out, b.toString());
            }
        } else {
            for (String s : new String[] {
                "", " ", ";", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" password=\"admin-secret\" user_admin=\"admin-secret\" user_alice=\"a\\\"b\";",
                "a required;b optional x=y;", "a REQUIRED ;", "a required", "a", "a wrong;", "a required x;", "a required x=;", "a required x=5;", "a required x=-y;", "a required x='q r';", "a required x=\"un\nterminated\";", "a required x=\"\\101\\n\\777\\8\";",
                "a required // c\n x=y;", "a required /* c */ x=y;", "a required x=a/b\n;", "a required x=a=b;", "a required x y=z;", "\"a\" 'required' \"k\"=\"v\";", "a required 5=v;", "a required x=y;;", "a required x=\"\u00e9\u4e2d\" \u00e9=z;", "a required debug=true y=1a z=a1;",
                "a required x=.5a;", "a required x=--b;", "a required x=\"\";", "a required \"user_a b\"=\"c\";",
            }) jaas(out, s);
            String[] pieces = {"a", "required", " ", " ", "=", ";", "\"", "'", "x=y", "x=\"v\"", "\\", "\n", "5", "-", ".", "/", "//", "/*", "*/", "_", "$", "{", "a.b.C required ", "\u00e9", "\\12", "optional"};
            for (int i = 0; i < 1500; i++) jaas(out, (r.nextBoolean() ? "m required " : "") + compose(r, pieces, 9) + (r.nextBoolean() ? ";" : ""));
        }
        System.out.println("[\n" + String.join(",\n", out) + "\n]");
    }
}
