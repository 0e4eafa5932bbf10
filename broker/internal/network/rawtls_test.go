package network

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"testing"
	"unsafe"
)

// rawTLS is a TLS 1.3 client that may write what crypto/tls would not: it takes
// the keys of a connection after its handshake.
type rawTLS struct {
	conn    net.Conn
	reader  io.Reader
	in, out direction
	pending []byte // plaintext read and not taken
}

type direction struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// takeOver makes conn's session a rawTLS. conn must not be used any more.
func takeOver(t *testing.T, conn *tls.Conn) *rawTLS {
	t.Helper()
	if got := conn.ConnectionState().CipherSuite; got != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("cipher suite is %s, and this client knows TLS_AES_128_GCM_SHA256 alone", tls.CipherSuiteName(got))
	}
	half := func(name string) direction {
		v := reflect.ValueOf(conn).Elem().FieldByName(name)
		seq := v.FieldByName("seq")
		var n [8]byte
		reflect.Copy(reflect.ValueOf(n[:]), reflect.NewAt(seq.Type(), unsafe.Pointer(seq.UnsafeAddr())).Elem())
		d := direction{secret: bytes.Clone(v.FieldByName("trafficSecret").Bytes()), seq: binary.BigEndian.Uint64(n[:])}
		d.derive(t)
		return d
	}
	raw := reflect.ValueOf(conn).Elem().FieldByName("rawInput")
	left := (*bytes.Buffer)(unsafe.Pointer(raw.UnsafeAddr())).Bytes()
	return &rawTLS{
		conn: conn.NetConn(), reader: io.MultiReader(bytes.NewReader(bytes.Clone(left)), conn.NetConn()),
		in: half("in"), out: half("out"),
	}
}

func (d *direction) derive(t *testing.T) {
	t.Helper()
	block, err := aes.NewCipher(expandLabel(t, d.secret, "key", 16))
	if err != nil {
		t.Fatal(err)
	}
	if d.aead, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	d.iv = expandLabel(t, d.secret, "iv", 12)
}

// update goes to the next generation of keys.
func (d *direction) update(t *testing.T) {
	t.Helper()
	d.secret = expandLabel(t, d.secret, "traffic upd", 32)
	d.seq = 0
	d.derive(t)
}

func (d *direction) nonce() []byte {
	nonce := bytes.Clone(d.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(d.seq >> (56 - 8*i))
	}
	d.seq++
	return nonce
}

func expandLabel(t *testing.T, secret []byte, label string, size int) []byte {
	t.Helper()
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len(label)))
	info = append(info, label...)
	info = append(info, 0)
	key, err := hkdf.Expand(sha256.New, secret, string(info), size)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// seal makes one encrypted record.
func (r *rawTLS) seal(kind byte, data []byte) []byte {
	inner := append(bytes.Clone(data), kind)
	header := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(inner)+r.out.aead.Overhead()))
	return r.out.aead.Seal(header, r.out.nonce(), inner, header)
}

// Write sends p as one record.
func (r *rawTLS) Write(p []byte) (int, error) {
	if _, err := r.conn.Write(r.seal(23, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// record reads one record.
func (r *rawTLS) record(t *testing.T) (kind byte, data []byte) {
	t.Helper()
	header := make([]byte, recordHeader)
	if _, err := io.ReadFull(r.reader, header); err != nil {
		t.Fatalf("read record: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(r.reader, body); err != nil {
		t.Fatalf("read record: %v", err)
	}
	inner, err := r.in.aead.Open(nil, r.in.nonce(), body, header)
	if err != nil {
		t.Fatalf("decrypt record: %v", err)
	}
	return inner[len(inner)-1], inner[:len(inner)-1]
}

// wantFrame reads until one frame has come and wants it to be body; a key
// update on the way is followed.
func (r *rawTLS) wantFrame(t *testing.T, body []byte) {
	t.Helper()
	want := framed(body)
	for len(r.pending) < len(want) {
		switch kind, data := r.record(t); {
		case kind == 23:
			r.pending = append(r.pending, data...)
		case kind == recordHandshake && data[0] == 24:
			r.in.update(t)
		}
	}
	if !bytes.Equal(r.pending[:len(want)], want) {
		t.Fatalf("response %q, want %q", r.pending[:len(want)], want)
	}
	r.pending = r.pending[len(want):]
}

// keyUpdate makes a record that announces new keys, asking for the server's
// too, and goes over to them.
func (r *rawTLS) keyUpdate(t *testing.T) []byte {
	t.Helper()
	record := r.seal(recordHandshake, []byte{24, 0, 0, 1, 1})
	r.out.update(t)
	return record
}
