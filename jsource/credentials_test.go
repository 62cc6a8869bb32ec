package jsource_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// authority is a certificate authority that lives as long as the test.
type authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate, for clients
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{tb: tb, file: filepath.Join(tb.TempDir(), "ca.pem")}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	der, a.key = a.sign(template, nil, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(a.file, block, 0o600); err != nil {
		tb.Fatal(err)
	}
	return a
}

// sign makes a key and has its certificate signed, by itself without a parent.
func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.tb.Fatal(err)
	}
	return der, key
}

// serving has a server speak TLS with a certificate of this authority.
func (a *authority) serving() natstest.Option {
	a.tb.Helper()
	der, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, a.key)
	return natstest.WithConfig(func(o *server.Options) {
		o.TLS, o.TLSTimeout = true, natstest.Patience.Seconds()
		o.TLSConfig = &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		}
	})
}

// roundTrip publishes, reconciles and waits, each over a connection of its own that opts let in.
func roundTrip(t *testing.T, srv *natstest.Server, opts ...natsgo.Option) {
	t.Helper()
	w := &world{tb: t, srv: srv, log: slog.New(slog.NewTextHandler(testLog(t), nil)), js: srv.JetStream(opts...)}
	var err error
	if w.pub, err = jsource.NewPublisher(srv.Conn(opts...)); err != nil {
		t.Fatal(err)
	}
	m := w.join(through(srv.Conn(opts...)))
	keys := numbered("key", 10)
	r := w.publish(keys...)
	if err := jsource.WaitReconciled(t.Context(), srv.Conn(opts...), widgetDurable, r[9]); err != nil {
		t.Fatal(err)
	}
	m.expectOnce(t, keys...)
	w.settled()
}

// refused checks that opts do not let a client in.
func refused(t *testing.T, srv *natstest.Server, opts ...natsgo.Option) {
	t.Helper()
	conn, err := natsgo.Connect(srv.URL(), opts...)
	if err == nil {
		conn.Close()
		t.Error("the server let a client in that it should not have")
	}
}

// newKey makes a key pair of the kind that create makes.
func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
	t.Helper()
	pair, err := create()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// Over TLS, as a user known by its nkey.
func TestTLSAndNkey(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	user, public := newKey(t, nkeys.CreateUser)
	srv := natstest.Start(t, ca.serving(), natstest.WithConfig(func(o *server.Options) {
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
	}))
	key, trust := natsgo.Nkey(public, user.Sign), natsgo.RootCAs(ca.file)
	refused(t, srv, trust)
	refused(t, srv, key)
	roundTrip(t, srv, key, trust)
}

// Over TLS, as a user of an account whose credentials an operator has signed.
func TestTLSAndCredentials(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	operator, operatorID := newKey(t, nkeys.CreateOperator)
	account, accountID := newKey(t, nkeys.CreateAccount)
	_, systemID := newKey(t, nkeys.CreateAccount)
	user, userID := newKey(t, nkeys.CreateUser)
	encoded := func(claims jwt.Claims, by nkeys.KeyPair) string {
		token, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	own := jwt.NewOperatorClaims(operatorID)
	own.SystemAccount = systemID
	ours := jwt.NewAccountClaims(accountID)
	ours.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	ownToken, oursToken := encoded(own, operator), encoded(ours, operator)
	system := encoded(jwt.NewAccountClaims(systemID), operator)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(encoded(jwt.NewUserClaims(userID), account), seed)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t, ca.serving(), natstest.WithConfig(func(o *server.Options) {
		claims, err := jwt.DecodeOperatorClaims(ownToken)
		accounts := &server.MemAccResolver{}
		for id, token := range map[string]string{accountID: oursToken, systemID: system} {
			if err == nil {
				err = accounts.Store(id, token)
			}
		}
		if err != nil {
			t.Error(err)
		}
		o.TrustedOperators, o.SystemAccount, o.AccountResolver = []*jwt.OperatorClaims{claims}, systemID, accounts
	}))
	trust := natsgo.RootCAs(ca.file)
	refused(t, srv, trust)
	roundTrip(t, srv, trust, natsgo.UserCredentials(file))
}
