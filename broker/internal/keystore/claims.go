package keystore

import (
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
)

// The libraries that read stores believe what a store says of itself: that an entry is 4 GB long, that a password is to be
// hashed two billion times. A damaged file must not cost that, so it is looked through first.

// mostIterations is more than any tool makes (Java's default is 10,000) and takes some seconds.
const mostIterations = 5_000_000

var errTruncated = errors.New("the file is damaged: an entry is longer than what is left of it")

// claimsOfJKS tells of a JKS file whose lengths go beyond its end (sun.security.provider.JavaKeyStore).
func claimsOfJKS(content []byte) error {
	const (
		magic, version      = 4, 4
		privateKey, trusted = 1, 2
		timestamp           = 8
		typedFromVersion    = 2
	)
	r := claims{rest: content}
	r.skip(magic)
	typed := r.uint32() >= typedFromVersion
	certificate := func() {
		if typed {
			r.skip(int64(r.uint16()))
		}
		r.skip(int64(r.uint32()))
	}
	for entries := r.uint32(); entries > 0 && !r.beyond; entries-- {
		tag := r.uint32()
		r.skip(int64(r.uint16())) // alias
		r.skip(timestamp)
		switch tag {
		case privateKey:
			r.skip(int64(r.uint32()))
			for chain := r.uint32(); chain > 0 && !r.beyond; chain-- {
				certificate()
			}
		case trusted:
			certificate()
		default:
			return fmt.Errorf("the file is damaged: an entry of type %d", tag)
		}
	}
	if r.beyond {
		return errTruncated
	}
	return nil
}

// claims reads lengths; once one goes beyond the end all are 0.
type claims struct {
	rest   []byte
	beyond bool
}

func (c *claims) skip(n int64) []byte {
	if c.beyond || n > int64(len(c.rest)) {
		c.beyond = true
		return nil
	}
	skipped := c.rest[:n]
	c.rest = c.rest[n:]
	return skipped
}

func (c *claims) uint16() uint16 {
	if b := c.skip(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *claims) uint32() uint32 {
	if b := c.skip(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// claimsOfPKCS12 tells of a PKCS12 file whose checksum would take for ever (RFC 7292, MacData).
func claimsOfPKCS12(content []byte) error {
	var pfx struct {
		Version  int
		AuthSafe asn1.RawValue
		MacData  struct {
			Mac        asn1.RawValue
			Salt       []byte
			Iterations int `asn1:"optional,default:1"`
		} `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(content, &pfx); err != nil {
		return nil //nolint:nilerr // whoever reads it says what is wrong
	}
	if n := pfx.MacData.Iterations; n > mostIterations {
		return fmt.Errorf("its checksum wants %d iterations (allowed: up to %d)", n, mostIterations)
	}
	return nil
}
