package sasl

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/xdg-go/scram"
)

// Names of the mechanisms that are served.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Bounds of a SCRAM credential's iterations.
const (
	MinIterations = 4096
	MaxIterations = 16384
)

// Supported lists the mechanisms that are served.
func Supported() []string { return []string{Plain, ScramSHA256, ScramSHA512} }

// exchange is one run of a mechanism. It lives until the client is known.
type exchange interface {
	// step takes the client's message and gives the answer; done when user is
	// authenticated by it. A refusal whose text the client may read is a
	// *deniedError; any other error is told to the client in general words.
	step(message []byte) (answer []byte, user string, done bool, err error)
}

// deniedError is a refusal in Kafka's words for the client.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

func denied(format string, args ...any) error { return &deniedError{fmt.Sprintf(format, args...)} }

// differentID is the refusal of PLAIN and SCRAM alike.
const differentID = "Authentication failed: Client requested an authorization id that is different from username"

// plainExchange is RFC 4616 as Kafka reads it: authorization id, user and
// password between NULs.
type plainExchange struct{ users map[string]string }

func (x plainExchange) step(message []byte) (answer []byte, user string, done bool, err error) {
	tokens := strings.SplitN(strings.ToValidUTF8(string(message), "\ufffd"), "\x00", 5)
	if n := min(len(tokens), 4); n != 3 {
		return nil, "", false, denied("Invalid SASL/PLAIN response: expected 3 tokens, got %d", n)
	}
	id, user, password := tokens[0], tokens[1], tokens[2]
	want, known := x.users[user]
	switch {
	case user == "":
		return nil, "", false, denied("Authentication failed: username not specified")
	case password == "":
		return nil, "", false, denied("Authentication failed: password not specified")
	case subtle.ConstantTimeCompare([]byte(password), []byte(want)) != 1 || !known:
		return nil, "", false, denied("Authentication failed: Invalid username or password")
	case id != "" && id != user:
		return nil, "", false, denied(differentID)
	}
	return []byte{}, user, true, nil
}

// The forms that Kafka accepts of a SCRAM client's messages; they are narrower
// than RFC 5802: no channel binding and no user name beyond ASCII.
const (
	scramName      = `((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+)`
	scramExtension = `((?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*)`
	scramBase64    = `(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?`
	scramFirst     = `\An,(?:a=` + scramName + `)?,(?:m=[\x01-\x2b\x2d-\x7f]+,)?n=` + scramName + `,r=[\x21-\x2b\x2d-\x7e]+` + scramExtension + `\z`
	scramFinal     = `\Ac=` + scramBase64 + `,r=[\x21-\x2b\x2d-\x7e]+` + scramExtension + `,p=` + scramBase64 + `\z`
)

// scramMechanism makes the exchanges of one SCRAM mechanism.
type scramMechanism struct {
	server                 *scram.Server
	first, final, reserved *regexp.Regexp
}

func newScram(hash scram.HashGeneratorFcn, mechanism string, lookup func(mechanism, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool)) (*scramMechanism, error) {
	server, err := hash.NewServer(func(user string) (scram.StoredCredentials, error) {
		if lookup == nil {
			return scram.StoredCredentials{}, errUnknownUser
		}
		salt, storedKey, serverKey, iterations, ok := lookup(mechanism, user)
		if !ok {
			return scram.StoredCredentials{}, errUnknownUser
		}
		if iterations < MinIterations {
			return scram.StoredCredentials{}, fmt.Errorf("iterations %d is less than the minimum %d for %s", iterations, MinIterations, mechanism)
		}
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(salt), Iters: iterations},
			StoredKey:  storedKey,
			ServerKey:  serverKey,
		}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mechanism, err)
	}
	return &scramMechanism{
		server: server, first: regexp.MustCompile(scramFirst), final: regexp.MustCompile(scramFinal),
		reserved: regexp.MustCompile(`\A(n,[^,]*,)m=[^,]*,`),
	}, nil
}

var (
	errUnknownUser = errors.New("no credential of the user")
	errFormat      = errors.New("invalid SCRAM message format")
	errTokens      = errors.New("delegation tokens are not supported")
	errFinished    = errors.New("the exchange has ended")
)

// scramExchange is RFC 5802, with Kafka's checks around the library's.
type scramExchange struct {
	mechanism    *scramMechanism
	conversation *scram.ServerConversation
}

func (x *scramExchange) step(message []byte) (answer []byte, user string, done bool, err error) {
	text := string(message)
	if x.conversation != nil {
		if x.conversation.Done() {
			return nil, "", false, errFinished
		}
		if !x.mechanism.final.MatchString(text) {
			return nil, "", false, errFormat
		}
		response, stepErr := x.conversation.Step(text)
		if stepErr != nil {
			return nil, "", false, stepErr
		}
		return []byte(response), x.conversation.Username(), x.conversation.Valid(), nil
	}
	parts := x.mechanism.first.FindStringSubmatch(text)
	if parts == nil {
		return nil, "", false, errFormat
	}
	for extension := range strings.SplitSeq(parts[3], ",") {
		if name, value, _ := strings.Cut(extension, "="); name == "tokenauth" && strings.EqualFold(value, "true") {
			return nil, "", false, errTokens
		}
	}
	x.conversation = x.mechanism.server.NewConversation()
	// What RFC 5802 reserves for extensions that must be understood is nothing to Kafka, and no part of what is proved.
	response, err := x.conversation.Step(x.mechanism.reserved.ReplaceAllString(text, "$1"))
	if err != nil {
		return nil, "", false, err
	}
	if parts[1] != "" && parts[1] != x.conversation.Username() {
		return nil, "", false, denied(differentID)
	}
	return []byte(response), "", false, nil
}
