// Package sasl decides who a client is.
//
// A [Server] knows a broker's mechanisms and users. A [Session] is the
// authentication of one connection: it is asked about each request before the
// request is decoded ([Session.Admit]), is handed the handshakes and tokens,
// and says what to answer, when to close and who authenticated. It does no
// I/O and reads no clock: bytes and times come in, values go out, so that every
// sentence of Kafka's protocol is a row of a table test.
//
// A [Mapper] turns the subject of a client's certificate into a principal name
// by ssl.principal.mapping.rules, and [JAAS] reads the login modules that Kafka
// configures users with.
package sasl
