#!/bin/sh
# Makes the key stores of this folder with keytool and openssl, valid for a
# hundred years: a CA, a server key signed by it, trust stores; password "changeit".
set -e
cd "$(dirname "$0")"
rm -f *.jks *.p12 *.pem
D="-validity 36500 -storepass changeit -keypass changeit -noprompt"
keytool -genkeypair -alias ca -dname "CN=Test CA,O=brokerlab" -ext bc:c -keyalg EC -groupname secp256r1 -keystore ca.p12 $D
for type in JKS PKCS12; do
	f=server.$(echo $type | tr A-Z a-z | sed s/pkcs12/p12/)
	keytool -genkeypair -alias server -dname "CN=localhost,OU=Eng\\, Ops,O=brokerlab" -ext san=dns:localhost,ip:127.0.0.1 -keyalg RSA -keysize 2048 -storetype $type -keystore $f $D
	keytool -certreq -alias server -keystore $f $D | keytool -gencert -alias ca -ext san=dns:localhost,ip:127.0.0.1 -keystore ca.p12 $D -rfc > server-cert.pem
	keytool -exportcert -alias ca -keystore ca.p12 $D -rfc > ca.pem
	keytool -importcert -alias ca -file ca.pem -keystore $f $D
	keytool -importcert -alias server -file server-cert.pem -keystore $f $D
	keytool -delete -alias ca -keystore $f $D
	keytool -importcert -alias ca -file ca.pem -storetype $type -keystore trust.$(echo $f | sed s/.*\\.//) $D
done
cp server.jks keypass.jks
keytool -keypasswd -alias server -keystore keypass.jks -storepass changeit -keypass changeit -new secret2
# Two certificate entries beside the key, as people import a CA into the same file.
cp server.p12 mixed.p12
keytool -importcert -alias other -file ca.pem -keystore mixed.p12 $D
openssl pkcs12 -in server.p12 -passin pass:changeit -nodes -nocerts 2>/dev/null | openssl pkey > key.pem
openssl pkcs8 -topk8 -in key.pem -v2 aes-256-cbc -passout pass:secret2 > key-encrypted.pem
openssl rsa -in key.pem -traditional > key-pkcs1.pem 2>/dev/null
openssl rsa -in key.pem -traditional -aes128 -passout pass:secret2 > key-oldstyle.pem 2>/dev/null
cat server-cert.pem ca.pem > chain.pem
cat key.pem chain.pem > server.pem
cat key-encrypted.pem chain.pem > server-encrypted.pem
openssl pkcs12 -export -inkey key.pem -in chain.pem -out openssl.p12 -passout pass:changeit
openssl pkcs12 -export -legacy -inkey key.pem -in chain.pem -out openssl-legacy.p12 -passout pass:changeit
# A client's key by the same CA.
openssl ecparam -name prime256v1 -genkey -noout -out client-key.pem
openssl req -new -key client-key.pem -subj "/O=brokerlab/CN=alice" 2>/dev/null > client.csr
keytool -gencert -alias ca -infile client.csr -keystore ca.p12 $D -rfc > client-cert.pem
rm client.csr
cat client-key.pem client-cert.pem > client.pem
rm client-key.pem client-cert.pem
