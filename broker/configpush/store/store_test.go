package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/store"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// connections are what a broker would say is open.
type connections struct {
	mu   sync.Mutex
	open []configpush.Context
	all  int
}

func (c *connections) seq(of *configpush.Identity) iter.Seq[configpush.Context] {
	return func(yield func(configpush.Context) bool) {
		c.mu.Lock()
		all := slices.Clone(c.open)
		c.mu.Unlock()
		for i := range all {
			if (of == nil || all[i].Identity() == *of) && !yield(all[i]) {
				return
			}
		}
	}
}

func (c *connections) add(ctx configpush.Context) configpush.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	ctx.ConnectionID = strconv.Itoa(c.all)
	ctx.Connected = time.Now().Add(time.Duration(c.all) * time.Nanosecond) // one after the other
	c.open = append(c.open, ctx)
	return ctx
}

func (c *connections) close(ctx configpush.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(o configpush.Context) bool { return o.ConnectionID == ctx.ConnectionID })
}

func who(client string) configpush.Context {
	return configpush.Context{
		Listener: "SASL_SSL", Protocol: "SASL_SSL", Principal: "User:alice", Address: netip.MustParseAddr("10.0.0.5"), ClientID: client,
		Software: "kgo", SoftwareVersion: "1.0",
	}
}

func open(t *testing.T, dir string, c *connections, properties ...string) *store.Policy {
	t.Helper()
	p := store.New(slog.New(slog.DiscardHandler))
	all := map[string]string{"log.dirs": dir}
	for i := 0; i < len(properties); i += 2 {
		all[properties[i]] = properties[i+1]
	}
	if err := p.Configure(all); err != nil {
		t.Fatal(err)
	}
	if c != nil {
		p.Observe(c.seq)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func push(t *testing.T, p *store.Policy, c configpush.Context, configs ...string) {
	t.Helper()
	if err := process(t.Context(), p, c, configs...); err != nil {
		t.Fatal(err)
	}
}

func process(ctx context.Context, p *store.Policy, c configpush.Context, configs ...string) error {
	return p.Process(ctx, pushOf(c, configs...))
}

func pushOf(c configpush.Context, configs ...string) *configpush.Push {
	push := &configpush.Push{Context: c, Received: time.Now()}
	for i := 0; i < len(configs); i += 2 {
		push.Entries = append(push.Entries, configpush.Entry{Key: configs[i], Value: configs[i+1], Type: protocol.ConfigTypeString})
	}
	push.Bytes = configpush.Size(push.Entries)
	return push
}

// list is all that is held, each client as name: acks of its configurations.
func list(t *testing.T, p *store.Policy, f configpush.Filter) []string {
	t.Helper()
	f.Entries = true
	all, err := p.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for i := range all {
		words := []string{all[i].ClientID + ":"}
		for _, c := range all[i].Configurations {
			for _, e := range c.Entries {
				words = append(words, e.Key+"="+e.Value)
			}
		}
		texts = append(texts, strings.Join(words, " "))
	}
	return texts
}

func held(t *testing.T, p *store.Policy, want ...string) {
	t.Helper()
	if got := list(t, p, configpush.Filter{}); !slices.Equal(got, want) {
		t.Errorf("held are %q, want %q", got, want)
	}
}

// each runs a test on a file and in memory.
func each(t *testing.T, run func(t *testing.T, dir string)) {
	t.Helper()
	t.Run("file", func(t *testing.T) { run(t, t.TempDir()) })
	t.Run("memory", func(t *testing.T) { run(t, "") })
}

func TestAClientThatRestartsWithAnotherConfigurationReplacesTheFormer(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		first := c.add(who("app"))
		push(t, p, first, "acks", "1")
		held(t, p, "app: acks=1")
		c.close(first)
		held(t, p, "app: acks=1") // it is remembered
		second := c.add(who("app"))
		other := c.add(who("app")) // its own second connection
		push(t, p, second, "acks", "all")
		held(t, p, "app: acks=all")
		c.close(other)
		push(t, p, second, "acks", "0") // the same connection says something else
		held(t, p, "app: acks=0")
	})
}

func TestDifferentPushesUnderOneIdentityAreBothKept(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		a, b := c.add(who("app")), c.add(who("app"))
		push(t, p, a, "acks", "1")
		push(t, p, b, "acks", "all")
		held(t, p, "app: acks=all acks=1")
		if got := list(t, p, configpush.Filter{Ambiguous: true}); len(got) != 1 {
			t.Errorf("ambiguous are %q, want one client", got)
		}
		c.close(a) // only who pushed acks=all is there
		held(t, p, "app: acks=all")
		if got := list(t, p, configpush.Filter{Ambiguous: true}); len(got) != 0 {
			t.Errorf("ambiguous are %q, want none", got)
		}
		stranger := c.add(who("app")) // a's or b's: who knows
		held(t, p, "app: acks=all acks=1")
		c.close(b)
		c.close(stranger)
		held(t, p, "app: acks=all acks=1")
		last := c.add(who("app"))
		push(t, p, last, "acks", "0") // nobody else is there
		held(t, p, "app: acks=0")
	})
}

func TestAnIdleClosedConnectionOfAPusherDoesNotLoseItsConfiguration(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		a := c.add(who("app"))
		push(t, p, a, "acks", "1")
		c.add(who("app")) // a's second connection, which stays
		c.close(a)
		b := c.add(who("app"))
		push(t, p, b, "acks", "all")
		held(t, p, "app: acks=all acks=1")
	})
}

func TestEqualPushesAreCountedWhateverTheirOrder(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		for range 3 {
			push(t, p, c.add(who("app")), "acks", "1", "linger.ms", "5")
			push(t, p, c.add(who("app")), "linger.ms", "5", "acks", "1")
		}
		all, err := p.List(t.Context(), configpush.Filter{})
		if err != nil || len(all) != 1 || len(all[0].Configurations) != 1 || all[0].Configurations[0].Pushes != 6 || all[0].Open != 6 {
			t.Errorf("List() = %+v, %v, want one client of one configuration that came 6 times", all, err)
		}
		if all[0].Configurations[0].Entries != nil {
			t.Error("List() without Entries has some")
		}
	})
}

func TestWhateverTellsClientsApartDoes(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		others := []func(*configpush.Context){
			func(*configpush.Context) {}, func(o *configpush.Context) { o.Principal = "User:bob" }, func(o *configpush.Context) { o.Listener = "B" },
			func(o *configpush.Context) { o.Address = netip.MustParseAddr("fd00::1") }, func(o *configpush.Context) { o.ClientID = "b" },
			func(o *configpush.Context) { o.Software = "librdkafka" }, func(o *configpush.Context) { o.SoftwareVersion = "2" },
		}
		for i, change := range others {
			o := who("app")
			change(&o)
			push(t, p, c.add(o), "n", strconv.Itoa(i))
		}
		for want, f := range map[int]configpush.Filter{
			7: {}, 6: {Principal: new("User:alice")}, 5: {Principal: new("User:alice"), ClientID: new("app"), Listener: new("SASL_SSL")},
			1: {Address: netip.MustParsePrefix("fd00::/8")}, 0: {Software: new("KGO")}, 3: {Most: 3}, 2: {After: 5},
		} {
			if want == 5 {
				f.Software = new("kgo")
				f.Address = netip.MustParsePrefix("10.0.0.0/24")
				want = 2 // of two versions
			}
			if got := list(t, p, f); len(got) != want {
				t.Errorf("List(%+v) has %d: %q, want %d", f, len(got), got, want)
			}
		}
	})
}

func TestTheClientThatHasNotPushedForLongestGoes(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		p := open(t, dir, &connections{}, store.MaxInstances, "3")
		for i := range 3 {
			push(t, p, who(strconv.Itoa(i)), "n", "0")
		}
		push(t, p, who("0"), "n", "0")
		push(t, p, who("3"), "n", "0")
		held(t, p, "0: n=0", "2: n=0", "3: n=0")
		if err := p.Reconfigure(map[string]string{store.MaxInstances: "1"}); err != nil {
			t.Fatal(err)
		}
		push(t, p, who("4"), "n", "0")
		held(t, p, "4: n=0")
		for _, wrong := range []string{"0", "-1", "many", "99999999999999"} {
			if err := p.Reconfigure(map[string]string{store.MaxInstances: wrong}); err == nil || !strings.Contains(err.Error(), store.MaxInstances) {
				t.Errorf("Reconfigure(%s) = %v, want an error that names the property", wrong, err)
			}
		}
	})
}

func TestConfigurationsOfOneClientAreBounded(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		for i := range 20 {
			push(t, p, c.add(who("app")), "n", strconv.Itoa(i))
		}
		all, err := p.List(t.Context(), configpush.Filter{Entries: true})
		if err != nil || len(all) != 1 || len(all[0].Configurations) != 8 || all[0].More != 12 || all[0].Configurations[0].Entries[0].Value != "19" {
			t.Errorf("List() = %+v, %v, want 8 configurations, the latest first, and 12 more", all, err)
		}
	})
}

func TestHostileContentIsStoredSafely(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		p := open(t, dir, &connections{})
		c := who("a\x00pp\x1b[31m'; DROP TABLE client; --")
		c.Software = "\xff\xfe"
		push(t, p, c, "k\x00\x1b[2J", "\xff\x00\u202e'\"\\", "sasl.jaas.config", "hunter2", `"],["x`, "<>&\n", "x", "PlainLoginModule required password=\"hunter2\";")
		held(t, p, `a\x00pp\x1b[31m'; DROP TABLE client; --: k\x00\x1b[2J=\xff\x00\u202e'"\ sasl.jaas.config=redacted "],["x=<>&\n x=redacted`)
		all, err := p.List(t.Context(), configpush.Filter{ClientID: new(`a\x00pp\x1b[31m'; DROP TABLE client; --`), Software: new(`\xff\xfe`)})
		if err != nil || len(all) != 1 {
			t.Errorf("List() by what is shown = %v, %v, want the client", all, err)
		}
		if dir == "" {
			return
		}
		if err = p.Close(); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(filepath.Join(dir, store.Dir, store.File))
		if err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"hunter2", "\x1b[", "\u202e"} {
			if strings.Contains(string(whole), never) {
				t.Errorf("the file has %q in it", never)
			}
		}
	})
}

func TestAViewShowsPeopleALineForEachConfiguration(t *testing.T) {
	dir := t.TempDir()
	c := &connections{}
	p := open(t, dir, c)
	push(t, p, c.add(who("app")), "acks", "1", "ssl.key.password", "hunter2")
	push(t, p, c.add(who("app")), "acks", "all")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.Dir, store.File)+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT principal, client_id, address, software, ambiguous, key, value, is_default, redacted FROM pushed ORDER BY key, value")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		text := make([]string, 9)
		into := make([]any, len(text))
		for i := range text {
			into[i] = &text[i]
		}
		if err = rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join(text, " "))
	}
	want := []string{
		"User:alice app 10.0.0.5 kgo 1 acks 1 0 0", "User:alice app 10.0.0.5 kgo 1 acks all 0 0", "User:alice app 10.0.0.5 kgo 1 ssl.key.password redacted 0 1",
	}
	if err = rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("the view has %q, %v, want %q", got, err, want)
	}
}

func TestWhatIsHeldOutlivesTheBroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b%20?#ü") // a name that is no URL
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	c := &connections{}
	p := open(t, dir, c)
	a := c.add(who("app"))
	push(t, p, a, "acks", "1")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(dir, store.Dir))
	if err != nil || len(files) != 1 || files[0].Name() != store.File {
		t.Errorf("a closed store leaves %v, %v, want %s alone", files, err, store.File)
	}
	if info, unseen := files[0].Info(); unseen != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v, want 0600", store.File, info.Mode(), unseen)
	}
	// The client stays, and does not push again; then there is another.
	p = open(t, dir, c)
	held(t, p, "app: acks=1")
	b := c.add(who("app"))
	push(t, p, b, "acks", "all")
	held(t, p, "app: acks=all acks=1")
}

func TestAStoreThatCannotBeUsedSaysSo(t *testing.T) {
	garbage, newer, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "file")
	for path, text := range map[string]string{filepath.Join(garbage, store.Dir, store.File): strings.Repeat("no database ", 1000), file: "x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, newer, nil).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(newer, store.Dir, store.File))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "PRAGMA user_version = 99")
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{garbage: store.File, newer: "99", file: "not a directory"} {
		p := store.New(slog.New(slog.DiscardHandler))
		if err = p.Configure(map[string]string{"log.dirs": dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Configure() of %s = %v, want an error about %s", dir, err, want)
		}
		if err = p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPushesAndListsGoOnAtOnce(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c, store.MaxInstances, "50")
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range 50 {
					conn := c.add(who(fmt.Sprint("app", (w*50+i)%70)))
					if err := process(t.Context(), p, conn, "n", strconv.Itoa(i%3)); err != nil {
						t.Error(err)
					}
					if i%2 == 0 {
						c.close(conn)
					}
					if i%10 == 0 {
						if _, err := p.List(t.Context(), configpush.Filter{Entries: true, Most: 10}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		if got := list(t, p, configpush.Filter{}); len(got) != 50 {
			t.Errorf("%d clients are held, want 50", len(got))
		}
	})
}

func TestAPushWhoseTimeIsUpIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		p := open(t, dir, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := process(ctx, p, who("app"), "acks", "1"); !errors.Is(err, context.Canceled) {
			t.Errorf("Process() = %v, want %v", err, context.Canceled)
		}
		held(t, p)
	})
}

func TestPushesThatAreKeptTogetherAreAsIfTheyCameOneAfterTheOther(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		t.Helper()
		c := &connections{}
		p := open(t, dir, c)
		a, b, other := c.add(who("app")), c.add(who("app")), c.add(who("other"))
		late := pushOf(c.add(who("late")), "acks", "1")
		late.Deadline = time.Now().Add(-time.Second)
		errs := p.ProcessAll(t.Context(), []*configpush.Push{
			pushOf(a, "acks", "1"), pushOf(other, "acks", "0"), pushOf(a, "acks", "2"), late, pushOf(b, "acks", "all"), pushOf(b, "acks", "all"), pushOf(a, "acks", "3"),
		})
		for i, err := range errs {
			if late := i == 3; late != errors.Is(err, context.DeadlineExceeded) || !late && err != nil {
				t.Errorf("push %d: %v", i, err)
			}
		}
		held(t, p, "app: acks=3 acks=all", "other: acks=0")
		all, err := p.List(t.Context(), configpush.Filter{ClientID: new("app")})
		if err != nil || len(all) != 1 || all[0].Configurations[1].Pushes != 2 {
			t.Errorf("List() = %+v, %v, want acks=all pushed twice", all, err)
		}
		if errs = p.ProcessAll(t.Context(), nil); len(errs) != 0 {
			t.Errorf("ProcessAll of none = %v", errs)
		}
	})
}

// A push that the database refuses is a row that a trigger does not let in.
func TestAPushThatCannotBeKeptFailsNoOther(t *testing.T) {
	dir := t.TempDir()
	c := &connections{}
	p := open(t, dir, c, store.MaxInstances, "3")
	a, b := c.add(who("app")), c.add(who("app"))
	push(t, p, a, "acks", "1")
	push(t, p, b, "acks", "all")
	refuse(t, dir, "poison")
	clients := []configpush.Context{c.add(who("x")), c.add(who("y")), c.add(who("z"))}
	errs := p.ProcessAll(t.Context(), []*configpush.Push{
		pushOf(b, "acks", "0"), pushOf(clients[0], "n", "0"), pushOf(clients[1], "n", "poison"), pushOf(a, "acks", "poison"), pushOf(clients[2], "n", "2"),
	})
	for i, err := range errs {
		if refused := i == 2 || i == 3; (err != nil) != refused || refused && !strings.Contains(err.Error(), "no room") {
			t.Errorf("push %d: %v, want an error: %v", i, err, refused)
		}
	}
	held(t, p, "app: acks=0 acks=1", "x: n=0", "z: n=2") // a has said 1, and b 0 since
	c.close(a)
	held(t, p, "app: acks=0", "x: n=0", "z: n=2")
	push(t, p, c.add(who("y")), "n", "1") // one more than there may be: the first has not pushed for longest
	held(t, p, "x: n=0", "z: n=2", "y: n=1")
}

// refuse lets the store's database refuse configurations with a word in them.
func refuse(t *testing.T, dir, word string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, store.Dir, store.File)+"?_pragma=busy_timeout(4000)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON configuration WHEN NEW.entries LIKE '%`+word+`%' BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedStoreIsKnownWhenTheBrokerStarts(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir, nil)
	fillStore(t, p, 200)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, store.Dir, store.File)
	damage(t, path)
	p = store.New(slog.New(slog.DiscardHandler))
	err := errors.Join(p.Configure(map[string]string{"log.dirs": dir}), p.Close())
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Configure() = %v, want an error that names %s and the damage", err, path)
	}
}

func TestAStoreThatIsDamagedWhileItIsUsedSaysSo(t *testing.T) {
	dir := t.TempDir()
	p := open(t, dir, nil)
	const clients = 1000 // more than SQLite keeps in memory
	fillStore(t, p, clients)
	if err := p.Close(); err != nil { // all of it is in the file
		t.Fatal(err)
	}
	p = open(t, dir, nil)
	path := filepath.Join(dir, store.Dir, store.File)
	damage(t, path)
	var err error
	for i := 0; i < clients && err == nil; i++ {
		err = process(t.Context(), p, who(strconv.Itoa(i)), "n", "another")
	}
	if err == nil || !strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(err.Error(), "moved away") {
		t.Errorf("Process() = %v, want an error that names %s and what to do", err, path)
	}
}

func fillStore(tb testing.TB, p *store.Policy, clients int) {
	tb.Helper()
	all := make([]*configpush.Push, clients)
	for i := range all {
		all[i] = pushOf(who(strconv.Itoa(i)), "n", strings.Repeat("x", 3000))
	}
	if err := errors.Join(p.ProcessAll(tb.Context(), all)...); err != nil {
		tb.Fatal(err)
	}
}

// damage writes over every page of a database but the first, where it begins.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	const page = 4096
	if err != nil || info.Size() < 100*page {
		t.Fatalf("%s has %d bytes, %v", path, info.Size(), err)
	}
	for at := int64(page); at < info.Size(); at += page {
		if _, err = f.WriteAt([]byte("\xde\xad\xbe\xef damaged by a test"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err = f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever a client says, the database has it as JSON that is read again as it is shown.
func FuzzEncode(f *testing.F) {
	f.Add("acks", "all", int8(2), true)
	f.Add("k\x00\"\\", "\xff\u202e<>&\n", int8(-128), false)
	f.Fuzz(func(t *testing.T, key, value string, typ int8, isDefault bool) {
		p := open(t, "", nil)
		entries := []configpush.Entry{{Key: key, Value: value, Type: typ, Default: isDefault}, {Key: "acks"}}
		if err := p.Process(t.Context(), &configpush.Push{Context: who("app"), Entries: entries, Received: time.Now()}); err != nil {
			t.Fatal(err)
		}
		all, err := p.List(t.Context(), configpush.Filter{Entries: true})
		if err != nil || len(all) != 1 {
			t.Fatalf("List() = %+v, %v", all, err)
		}
		want := []configpush.Entry{{Key: configpush.Printable(key), Value: configpush.Printable(value), Type: typ, Default: isDefault}, {Key: "acks"}}
		if configpush.Sensitive(key, typ) || configpush.SensitiveValue(value) {
			want[0].Value, want[0].Redacted = configpush.Redacted, true
		}
		if got := all[0].Configurations[0].Entries; !slices.Equal(got, want) {
			t.Errorf("%+v is kept as %+v, want %+v", entries, got, want)
		}
	})
}

// A push of 40 configurations, each of another client: one at a time, and as many together as a broker hands over at most.
func BenchmarkProcess(b *testing.B) {
	var configs []string
	for i := range 40 {
		configs = append(configs, fmt.Sprint("some.configuration.of.a.client.", i), "12345")
	}
	for _, bench := range []struct {
		name, dir string
		together  int
	}{{"file", b.TempDir(), 1}, {"file-256-together", b.TempDir(), 256}, {"memory", "", 1}} {
		b.Run(bench.name, func(b *testing.B) {
			p := store.New(slog.New(slog.DiscardHandler))
			if err := p.Configure(map[string]string{"log.dirs": bench.dir}); err != nil {
				b.Fatal(err)
			}
			batch := make([]*configpush.Push, 0, bench.together)
			i := 0
			for b.Loop() {
				i++
				if batch = append(batch, pushOf(who(strconv.Itoa(i)), configs...)); len(batch) < bench.together {
					continue
				}
				if err := errors.Join(p.ProcessAll(b.Context(), batch)...); err != nil {
					b.Fatal(err)
				}
				batch = batch[:0]
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pushes/s")
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// What the look for damage adds to the start of a broker whose store is full.
func BenchmarkStartWithAFullStore(b *testing.B) {
	dir := b.TempDir()
	open := func() *store.Policy {
		p := store.New(slog.New(slog.DiscardHandler))
		if err := p.Configure(map[string]string{"log.dirs": dir}); err != nil {
			b.Fatal(err)
		}
		return p
	}
	p := open()
	fillStore(b, p, store.DefaultMaxInstances)
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := open().Close(); err != nil {
			b.Fatal(err)
		}
	}
}
