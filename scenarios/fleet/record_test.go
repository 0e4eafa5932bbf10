package fleet

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatEndsAClientInAReauthenticationIsAReasonOfItsOwn(t *testing.T) {
	for _, err := range []error{
		&saslError{58, "wrong password"}, &badAnswerError{"no proof"}, io.EOF, os.ErrDeadlineExceeded, os.NewSyscallError("read", unix.ECONNRESET),
	} {
		if got := classify(err, Reauthenticating); got != ReauthFailed {
			t.Errorf("classify(%v, %s) = %s, want %s", err, Reauthenticating, got, ReauthFailed)
		}
		if got := classify(err, Held); got == ReauthFailed {
			t.Errorf("classify(%v, %s) = %s, want what else it is", err, Held, got)
		}
	}
	if got := classify(errAbandoned, Reauthenticating); got != Abandoned {
		t.Errorf("classify of an interrupted client = %s, want %s", got, Abandoned)
	}
}
