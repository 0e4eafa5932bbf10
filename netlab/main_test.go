package netlab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// The test binary is also what labs run: `lab owner FOLDER` is an owner, `serve PORT…` a node, `up FILE` and `down NAME`
// processes that can be killed.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "lab" && os.Args[2] == "owner":
		owner := Owner{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		exit(owner.Run(context.Background(), os.Args[3]))
	case len(os.Args) > 2 && os.Args[1] == "serve":
		exit(serve(os.Args[2:]))
	case len(os.Args) == 3 && os.Args[1] == "up":
		exit(upFile(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "down":
		exit(Down(context.Background(), os.Args[2], Options{}))
	default:
		os.Exit(m.Run())
	}
}

func exit(err error) {
	code := 0
	if err != nil {
		code = 1
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code) //nolint:revive // the end of a process that is not a test
}

// upFile brings up the lab that a JSON file has.
func upFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var lab topology.Lab
	err = json.Unmarshal(text, &lab)
	if err != nil {
		return err
	}
	_, err = Up(context.Background(), &lab, Options{})
	return err
}

// serve answers each connection with the address it sees, and then with what it receives.
func serve(ports []string) error {
	_, _ = fmt.Fprintln(os.Stdout, "serving", ports)
	for _, port := range ports {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					_, _ = fmt.Fprintln(c, c.RemoteAddr())
					_, _ = io.Copy(c, c)
				}()
			}
		}()
	}
	select {}
}

// bounded is the test's context with an end: what hangs fails with its own error instead of with all tests.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var labs atomic.Int64

// labName is a name that no other test, process or person uses.
func labName() string { return fmt.Sprintf("t%d-%d", os.Getpid(), labs.Add(1)) }

// resolved makes a lab of the text of a file without its name. SERVE "80"] is a node that serves, SELF the test binary.
func resolved(t *testing.T, text string) *topology.Lab {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("SERVE", "cmd: ["+exe+", serve, ", "SELF", exe).Replace(text)
	lab, err := topology.Parse("lab.yaml", []byte("name: "+labName()+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// raise brings a lab up and takes it down with the test, checking that nothing is left.
func raise(t *testing.T, text string, o Options) *Lab {
	t.Helper()
	testenv.NeedRoot(t)
	lab, err := Up(bounded(t), resolved(t, text), o)
	if err != nil {
		t.Fatalf("Up = %v, want nil", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(lab.Folder() + "/owner.log")
			t.Logf("owner.log: %s", text)
		}
		lower(t, lab)
	})
	return lab
}

func lower(t *testing.T, lab *Lab) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := lab.Down(ctx); err != nil {
		t.Errorf("Down = %v, want nil", err)
	}
	noLeaks(t, lab.Name())
}

func noLeaks(t *testing.T, name string) {
	t.Helper()
	if leaks, err := Leaks(name, Options{}); err != nil || len(leaks) != 0 {
		t.Errorf("Leaks = %v, %v, want none", leaks, err)
	}
}

func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func itoa(i int) string { return strconv.Itoa(i) }
