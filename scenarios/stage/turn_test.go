package stage

import (
	"context"
	"errors"
	"testing"
)

func TestWhoWaitsForTheTurnCanBeInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	release, err := TakeTurn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release() //nolint:errcheck // nothing was written
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := TakeTurn(ctx, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("TakeTurn = %v, want that it was canceled", err)
	}
}
