package api

import "github.com/twmb/franz-go/pkg/kmsg"

// ErrorResponse answers every part of a request with one error, in the shape of its API and in its version. It serves whoever
// answers requests without being a [Server].
func ErrorResponse(req kmsg.Request, code int16, message string) kmsg.Response {
	return errorResponse(req, code, message)
}
