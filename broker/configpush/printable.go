package configpush

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable is s with everything escaped that is not to be shown: control characters, what changes the direction or the
// look of the text after it, and bytes that are no UTF-8. Other text stays as it is, backslashes too, so that it cannot be
// turned back in every case.
func Printable(s string) string {
	if plain(s) {
		return s // as nearly every configuration is
	}
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case hidden(r):
			quoted := strconv.QuoteToASCII(string(r))
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain tells whether s has nothing but ASCII that is shown as it is.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func hidden(r rune) bool {
	return r != utf8.RuneError && !unicode.IsGraphic(r) || unicode.In(r, unicode.Zl, unicode.Zp)
}
