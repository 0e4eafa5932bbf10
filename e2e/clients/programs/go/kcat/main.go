// Kcat is the command kcat, which is librdkafka's, as a program of the tests of clients.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/contract"
	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/pipe"
)

func main() {
	contract.Main(contract.Client{
		Name: "kcat", Version: version(),
		Metadata: metadata, Produce: produce, Transact: transact, Consume: consume, Open: open,
		Admin: func(context.Context, contract.Request) (contract.Fields, error) {
			return nil, contract.UnsupportedError{Why: "it does not administer"}
		},
	})
}

// version is kcat's own and that of its library.
func version() string {
	out, err := exec.CommandContext(context.Background(), "kcat", "-V").CombinedOutput()
	if err != nil {
		return ""
	}
	m := regexp.MustCompile(`Version (\S+) .*librdkafka (\S+)`).FindSubmatch(out)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s (librdkafka %s)", m[1], m[2])
}

// command makes a command line. kcat reads no file of settings that somebody may have.
func command(r contract.Request, args ...string) []string {
	c := []string{"kcat", "-F", "/dev/null", "-b", r.Bootstrap, "-X", "security.protocol=" + r.Protocol}
	if r.ClientID != "" {
		c = append(c, "-X", "client.id="+r.ClientID)
	}
	if r.Encrypted() {
		c = append(c, "-X", "ssl.ca.location="+r.CA)
		if r.Cert != "" {
			c = append(c, "-X", "ssl.certificate.location="+r.Cert, "-X", "ssl.key.location="+r.Key)
		}
	}
	if r.Authenticated() {
		c = append(c, "-X", "sasl.mechanisms="+r.Mechanism, "-X", "sasl.username="+r.User, "-X", "sasl.password="+r.Password)
	}
	return append(c, args...)
}

// told finds the error in what kcat says, and why it came about: that stands in its library's log.
func told(text string) string {
	var found, why string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "% ERROR"), strings.HasPrefix(line, "% Delivery failed"), strings.HasPrefix(line, "% Fatal"):
			found = strings.TrimPrefix(line, "% ")
		case strings.HasPrefix(line, "%3|"), strings.HasPrefix(line, "%4|"), strings.HasPrefix(line, "%6|"):
			if parts := strings.SplitN(line, "]: ", 2); len(parts) == 2 {
				why = parts[1]
			}
		}
	}
	if found == "" || why == "" {
		return found + why
	}
	return found + " (" + why + ")"
}

func metadata(ctx context.Context, r contract.Request) (contract.Fields, error) {
	seconds := strconv.Itoa(max(1, r.TimeoutMS/1000-1))
	out, _, err := pipe.Run(ctx, "", told, command(r, "-L", "-J", "-m", seconds)...)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Brokers []any `json:"brokers"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return nil, err
	}
	return contract.Fields{"brokers": len(answer.Brokers)}, nil
}

func lines(r contract.Request, prefix string) string {
	var b strings.Builder
	for i := range r.Count {
		fmt.Fprintf(&b, "%s%s\n", prefix, r.Value(i))
	}
	return b.String()
}

func produce(ctx context.Context, r contract.Request) (contract.Fields, error) {
	timeout := "message.timeout.ms=" + strconv.Itoa(max(1000, r.TimeoutMS-2000))
	if _, _, err := pipe.Run(ctx, lines(r, ""), told, command(r, "-P", "-t", r.Topic, "-X", "enable.idempotence=true", "-X", timeout)...); err != nil {
		return nil, err
	}
	return contract.Fields{"produced": r.Count, "idempotent": true}, nil
}

// block is how much kcat reads at once: it sees no line before a block is full.
const block = 1024

// transact has kcat commit at the end of its input, and abort when it is interrupted before that. It does not say when records
// have been sent: the end of the partition does.
func transact(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c := command(r, "-P", "-t", r.Topic, "-X", "transactional.id="+r.TxID)
	if _, _, err := pipe.Run(ctx, lines(r, ""), told, c...); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	committed, err := end(ctx, r)
	if err != nil {
		return nil, err
	}
	p, err := pipe.Start(append(c, "-X", "linger.ms=0")...)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	for line := range strings.Lines(lines(r, contract.Aborted)) {
		if wrong := p.Write(pipe.Padded(strings.TrimSpace(line), block)); wrong != nil {
			return nil, wrong
		}
	}
	for sent := committed; sent < committed+r.Count; {
		if p.Ended() {
			return nil, errors.New(told(p.Said()))
		}
		if sent, err = end(ctx, r); err != nil {
			return nil, err
		}
	}
	p.Signal(syscall.SIGINT)
	p.End() // it looks at the signal when its read ends
	select {
	case <-p.Done():
	case <-ctx.Done():
		return nil, fmt.Errorf("abort: %w", ctx.Err())
	}
	return contract.Fields{"committed": r.Count, "aborted": r.Count}, nil
}

// end returns the end of the topic's only partition.
func end(ctx context.Context, r contract.Request) (int, error) {
	out, _, err := pipe.Run(ctx, "", told, command(r, "-Q", "-t", r.Topic+":0:-1", "-X", "isolation.level=read_uncommitted")...)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`offset (\d+)`).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("kcat -Q said %q", out)
	}
	return strconv.Atoi(m[1])
}

func consume(ctx context.Context, r contract.Request) (contract.Fields, error) {
	out, _, err := pipe.Run(ctx, "", told, command(r, "-G", r.Group, "-q", "-c", strconv.Itoa(r.Count), "-X", "auto.offset.reset=earliest",
		"-X", "isolation.level=read_committed", r.Topic)...)
	if err != nil {
		return nil, err
	}
	return contract.Fields{"consumed": strings.Count(out, "\n"), "aborted": strings.Count(out, contract.Aborted)}, nil
}

func open(_ context.Context, r contract.Request) (contract.Session, error) {
	s, err := pipe.Open(
		command(r, "-P", "-E", "-t", r.Topic, "-X", "linger.ms=0", "-X", "enable.idempotence=true"),
		command(r, "-G", r.Group, "-E", "-u", "-q", "-X", "auto.offset.reset=earliest", r.Topic), told)
	if err != nil {
		return nil, err
	}
	s.Pad = block
	return s, nil
}
