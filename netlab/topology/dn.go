package topology

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// attributeTypes are the keywords that RFC 2253 and Java's X500Principal give to parts of a name.
func attributeTypes() map[string]asn1.ObjectIdentifier {
	return map[string]asn1.ObjectIdentifier{
		"CN": {2, 5, 4, 3}, "L": {2, 5, 4, 7}, "ST": {2, 5, 4, 8}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "C": {2, 5, 4, 6},
		"STREET": {2, 5, 4, 9},
		"DC":     {0, 9, 2342, 19200300, 100, 1, 25},
		"UID":    {0, 9, 2342, 19200300, 100, 1, 1},
		// Java reads these, but prints them as numbers.
		"EMAILADDRESS": {1, 2, 840, 113549, 1, 9, 1}, "SERIALNUMBER": {2, 5, 4, 5}, "T": {2, 5, 4, 12}, "GIVENNAME": {2, 5, 4, 42},
		"SURNAME": {2, 5, 4, 4}, "DNQUALIFIER": {2, 5, 4, 46},
	}
}

// ParseDN reads a distinguished name as RFC 2253 has it and as Kafka prints the subject of a certificate: the most special
// part first. The result is in the order of a certificate.
func ParseDN(text string) (pkix.RDNSequence, error) {
	wrong := func(err error) (pkix.RDNSequence, error) {
		return nil, fmt.Errorf("%.200q is no distinguished name such as CN=alice,OU=billing: %w", text, err)
	}
	if len(text) > maxTextField {
		return wrong(fmt.Errorf("it has %d bytes, and at most %d are possible", len(text), maxTextField))
	}
	var name pkix.RDNSequence
	for rest := text; ; {
		var set pkix.RelativeDistinguishedNameSET
		for {
			attribute, after, err := parseAttribute(rest)
			if err != nil {
				return wrong(err)
			}
			set, rest = append(set, attribute), after
			if !strings.HasPrefix(rest, "+") {
				break
			}
			rest = rest[1:]
		}
		name = append(name, set)
		if rest == "" {
			break
		}
		rest = rest[1:] // a comma or semicolon
	}
	slices.Reverse(name)
	return name, nil
}

// parseAttribute reads TYPE=VALUE up to the next separator.
func parseAttribute(text string) (attribute pkix.AttributeTypeAndValue, rest string, err error) {
	keyword, rest, ok := strings.Cut(text, "=")
	keyword = strings.TrimSpace(keyword)
	if !ok {
		return attribute, "", fmt.Errorf("%.100q has no =", text)
	}
	attribute.Type, err = attributeType(keyword)
	if err != nil {
		return attribute, "", err
	}
	rest = strings.TrimLeft(rest, " ")
	if encoded, ok := strings.CutPrefix(rest, "#"); ok {
		end := strings.IndexAny(encoded, ",;+")
		if end < 0 {
			end = len(encoded)
		}
		attribute.Value, err = parseDER(strings.TrimSpace(encoded[:end]))
		if err != nil {
			return attribute, "", fmt.Errorf("the value of %s: %w", keyword, err)
		}
		return attribute, encoded[end:], nil
	}
	value, rest, err := parseValue(rest)
	if err != nil {
		return attribute, "", fmt.Errorf("the value of %s: %w", keyword, err)
	}
	attribute.Value = value
	return attribute, rest, nil
}

// parseDER reads a text in DER, written in hexadecimal digits.
func parseDER(digits string) (string, error) {
	der, err := hex.DecodeString(digits)
	if err != nil {
		return "", err
	}
	var value string
	if trailing, err := asn1.Unmarshal(der, &value); err != nil || len(trailing) > 0 {
		return "", errors.New("it is no text in DER")
	}
	return value, nil
}

func attributeType(keyword string) (asn1.ObjectIdentifier, error) {
	if oid, ok := attributeTypes()[strings.ToUpper(keyword)]; ok {
		return oid, nil
	}
	var oid asn1.ObjectIdentifier
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.ToUpper(keyword), "OID."), ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("unknown part %.100q", keyword)
		}
		oid = append(oid, int(n))
	}
	if len(oid) < 2 || oid[0] > 2 || oid[0] < 2 && oid[1] > 39 {
		return nil, fmt.Errorf("unknown part %.100q", keyword)
	}
	return oid, nil
}

// parseValue reads a value, quoted or with escapes, up to the separator that follows it.
func parseValue(text string) (value, rest string, err error) {
	if inner, quoted := strings.CutPrefix(text, `"`); quoted {
		value, rest, err = unescape(inner, `"`)
		if err != nil {
			return "", "", err
		}
		if rest == "" {
			return "", "", errors.New("a quote is not closed")
		}
		rest = strings.TrimLeft(rest[1:], " ")
		if rest != "" && !strings.ContainsRune(",;+", rune(rest[0])) {
			return "", "", fmt.Errorf("text follows its closing quote: %.100q", rest)
		}
	} else {
		value, rest, err = unescape(text, ",;+")
		if err != nil {
			return "", "", err
		}
		value = strings.TrimRight(value, " ")
	}
	switch {
	case value == "":
		return "", "", errors.New("it is empty")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return "", "", errors.New("it is no text")
	}
	return value, rest, nil
}

// unescape reads up to one of the separators: a backslash takes the meaning of the character behind it, or stands before
// the two hexadecimal digits of a byte.
func unescape(text, separators string) (value, rest string, err error) {
	var b []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if strings.IndexByte(separators, c) >= 0 {
			return string(b), text[i:], nil
		}
		if c != '\\' {
			b = append(b, c)
			continue
		}
		i++
		if i == len(text) {
			return "", "", errors.New("it ends in a backslash")
		}
		if one, err := hex.DecodeString(text[i:min(i+2, len(text))]); err == nil {
			b = append(b, one...)
			i++
			continue
		}
		b = append(b, text[i])
	}
	return string(b), "", nil
}
