package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestDistinguishedNamesAreReadAsJavaPrintsThem(t *testing.T) {
	for text, want := range map[string]string{ // pkix prints the most special part first, too
		"CN=alice":                            "CN=alice",
		"CN=alice,OU=billing,O=Example,C=DE":  "CN=alice,OU=billing,O=Example,C=DE",
		"cn = alice , ou=b ;O=c":              "CN=alice,OU=b,O=c",
		`CN=a\,b\+c\\,O="x, y"`:               `CN=a\,b\+c\\,O=x\, y`,
		`CN=\C3\A9`:                           "CN=é",
		"CN=a+UID=7,DC=example,DC=org":        "CN=a+UID=7,DC=example,DC=org",
		"1.2.840.113549.1.9.1=#1603614062":    "EMAIL=a@b",
		"CN=x,EMAILADDRESS=a@b":               "CN=x,EMAIL=a@b",
		"CN=kafka.example.com,L=New York,C=-": "CN=kafka.example.com,L=New York,C=-",
	} {
		name, err := ParseDN(text)
		if err != nil {
			t.Errorf("ParseDN(%q): %v", text, err)
			continue
		}
		got := ""
		for _, set := range slices.Backward(name) {
			for k, a := range set {
				switch {
				case k > 0:
					got += "+"
				case got != "":
					got += ","
				}
				got += keywordOf(a.Type.String()) + "=" + escapeDN(a.Value.(string))
			}
		}
		if got != want {
			t.Errorf("ParseDN(%q) = %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "alice", "CN=", "CN=a,", "=a", "CN=a,,O=b", `CN="a`, `CN=a\`, `CN="a"b`, "9.9=a", "1.40.1=a", "CN=#zz", "CN=#0500", "CN=\xff", "CN=a\x00"} {
		if name, err := ParseDN(text); err == nil {
			t.Errorf("ParseDN(%q) = %v, want an error", text, name)
		}
	}
}

func keywordOf(oid string) string {
	for keyword, o := range attributeTypes() {
		if o.String() == oid {
			if keyword == "EMAILADDRESS" {
				return "EMAIL"
			}
			return keyword
		}
	}
	return oid
}

func escapeDN(value string) string {
	return strings.NewReplacer(",", `\,`, "+", `\+`, `\`, `\\`).Replace(value)
}
