package keystore

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"slices"
	"strings"
)

// attribute is one type and value of a relative distinguished name, with the
// string type that encoding/asn1 would otherwise forget.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeSET is a set of attributes; encoding/asn1 knows it by its name's end.
type relativeSET []attribute

// DistinguishedName is the subject in RFC 2253 form exactly as Java's
// X500Principal.getName prints it: the last name first, unknown attributes and
// values that are no strings as #hex, escapes also where RFC 2253 asks for
// none. It is "" for an empty subject or one that is no DER, which
// [x509.ParseCertificate] does not let through.
func DistinguishedName(cert *x509.Certificate) string {
	var names []relativeSET
	if rest, err := asn1.Unmarshal(cert.RawSubject, &names); err != nil || len(rest) > 0 {
		return ""
	}
	var b strings.Builder
	for i, name := range slices.Backward(names) {
		for j, a := range name {
			if j > 0 {
				b.WriteByte('+')
			}
			a.write(&b)
		}
		if i > 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

// keyword is the short name that RFC 2253 has for a type, or "".
func keyword(oid string) string {
	switch oid {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "STREET"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	}
	return ""
}

func (a attribute) write(b *strings.Builder) {
	short := keyword(a.Type.String())
	if short != "" {
		b.WriteString(short)
	} else {
		b.WriteString(a.Type.String())
	}
	b.WriteByte('=')
	isString := false
	if a.Value.Class == asn1.ClassUniversal {
		switch a.Value.Tag {
		case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString, asn1.TagBMPString:
			isString = true
		}
	}
	if short == "" || !isString {
		b.WriteString("#" + hex.EncodeToString(a.Value.FullBytes))
		return
	}
	// Java takes the bytes of every string type for UTF-8.
	writeEscaped(b, []rune(string(a.Value.Bytes)))
}

func writeEscaped(b *strings.Builder, text []rune) {
	isBlank := func(r rune) bool { return r == ' ' || r == '\r' }
	lead, trail := 0, len(text)
	for lead < len(text) && isBlank(text[lead]) {
		lead++
	}
	for trail > lead && isBlank(text[trail-1]) {
		trail--
	}
	for i, r := range text {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case i < lead || i >= trail || strings.ContainsRune(`,=+<>#;"\`, r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
}
