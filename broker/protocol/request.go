package protocol

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestWith sends req and returns the response as R; a requestor that answers with another type is an error.
func requestWith[R kmsg.Response](ctx context.Context, r kmsg.Requestor, req kmsg.Request) (R, error) {
	var none R
	resp, err := r.Request(ctx, req)
	if err != nil {
		return none, err
	}
	typed, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("request with key %d was answered by a %T", req.Key(), resp)
	}
	return typed, nil
}
