// Package database tests the scripts in mysql.yaml, which a cluster without kubelets
// never runs. test/integration tests the rest of the file.
package database

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// object decodes the last object of a kind in mysql.yaml.
func object(t *testing.T, kind string, into any) {
	t.Helper()
	manifest, err := os.ReadFile("mysql.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(manifest), "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// pod is a directory with the files that an init container's script finds.
type pod struct{ dir string }

func newPod(t *testing.T, files ...string) pod {
	t.Helper()
	p := pod{t.TempDir()}
	config := corev1.ConfigMap{}
	object(t, "ConfigMap", &config)
	for name, content := range config.Data {
		p.write(t, "config/"+name, content)
	}
	for _, dir := range []string{"conf.d", "mysql"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		p.write(t, file, "")
	}
	return p
}

func (p pod) write(t *testing.T, file, content string) {
	t.Helper()
	path := filepath.Join(p.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // fake programs are executable
		t.Fatal(err)
	}
}

// run runs the script of an init container, with its paths moved below the pod's
// directory, and returns its output.
func (p pod) run(t *testing.T, shell, container, hostname string, env ...string) (string, error) {
	t.Helper()
	mysql := v1.Pod2{}
	object(t, "Pod2", &mysql)
	for _, c := range mysql.Spec.Template.Spec.InitContainers {
		if c.Name != container {
			continue
		}
		script := strings.NewReplacer("/mnt/config", p.dir+"/config", "/etc/mysql/conf.d", p.dir+"/conf.d", "/var/lib/mysql", p.dir+"/mysql").Replace(c.Args[0])
		cmd := exec.CommandContext(t.Context(), shell, append(c.Command[1:], script)...)
		cmd.Env = []string{"PATH=" + p.dir + "/bin:" + os.Getenv("PATH"), "HOSTNAME=" + hostname, "LOG=" + p.dir + "/log",
			"MYSQL_ROOT_PASSWORD=root", "REPLICATION_PASSWORD=secret", "FAIL=nothing"}
		for _, e := range c.Env {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		return strings.ReplaceAll(string(out), p.dir, ""), err
	}
	t.Fatalf("no init container %s", container)
	return "", nil
}

// files lists the files below a directory of the pod: "a b/c".
func (p pod) files(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	root := filepath.Join(p.dir, dir)
	if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// shells are the machine's shells that the scripts must work with. The image's sh is
// bash; Debian's is dash.
func shells() (found []string) {
	for _, shell := range []string{"sh", "bash", "dash"} {
		if _, err := exec.LookPath(shell); err == nil {
			found = append(found, shell)
		}
	}
	return found
}

func TestConfigurationByOrdinal(t *testing.T) {
	for _, shell := range shells() {
		for _, c := range []struct{ hostname, files, id string }{
			{"mysql-0", "common.cnf primary.cnf server-id.cnf", "[mysqld]\nserver-id=100\n"},
			{"mysql-1", "common.cnf replica.cnf server-id.cnf", "[mysqld]\nserver-id=101\n"},
			{"my-db-12", "common.cnf replica.cnf server-id.cnf", "[mysqld]\nserver-id=112\n"},
		} {
			p := newPod(t)
			if out, err := p.run(t, shell, "configure", c.hostname); err != nil {
				t.Fatalf("%s, %s: %v\n%s", shell, c.hostname, err, out)
			}
			if got := p.files(t, "conf.d"); got != c.files {
				t.Errorf("%s, %s: wrote %s, want %s", shell, c.hostname, got, c.files)
			}
			if id, err := os.ReadFile(filepath.Join(p.dir, "conf.d/server-id.cnf")); err != nil || string(id) != c.id {
				t.Errorf("%s, %s: wrote %q (%v), want %q", shell, c.hostname, id, err, c.id)
			}
		}
		for _, hostname := range []string{"mysql", "mysql-", "mysql-0x1"} {
			p := newPod(t)
			if _, err := p.run(t, shell, "configure", hostname); err == nil || p.files(t, "conf.d") != "" {
				t.Errorf("%s: %s has no ordinal, and was configured: %s", shell, hostname, p.files(t, "conf.d"))
			}
		}
	}
}

// fakes replace the image's programs. Each records its arguments and its input, and
// fails if they contain $FAIL. A server ends on a signal, or when its script has ended.
// Only the script that started a server sees it running.
var fakes = map[string]string{
	"bin/mysqld": `#!/bin/sh
echo "mysqld $*" >> "$LOG"
case $* in *"$FAIL"*) exit 1 ;; esac
case $1 in --initialize*) mkdir "${2#--datadir=}" && touch "${2#--datadir=}/ibdata1"; exit ;; esac
trap 'rm "$LOG.up.$PPID"; exit 0' TERM
touch "$LOG.up.$PPID"
while kill -0 "$PPID" 2> "$LOG.err"; do sleep 0.02; done
`,
	"bin/mysqladmin": `#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9; do if [ -e "$LOG.up.$PPID" ]; then exit 0; fi; sleep 0.05; done
exit 1
`,
	"bin/mysql": `#!/bin/sh
sql=$(cat)
printf '%s\n' "mysql $* as ${MYSQL_PWD:-nobody}: $sql" >> "$LOG"
case $sql in *"$FAIL"*) exit 1 ;; esac
to=${sql#*DATA DIRECTORY = \'}
if [ "$to" != "$sql" ]; then mkdir "${to%%\'*}" && touch "${to%%\'*}/ibdata1"; fi
`,
}

func TestCloneOfTheReplicaBefore(t *testing.T) {
	const two = `mysqld --initialize-insecure --datadir=/mysql/empty
mysqld --datadir=/mysql/empty --skip-networking --mysqlx=OFF --skip-replica-start --super-read-only=OFF
mysql --user=root as nobody: SET GLOBAL clone_valid_donor_list = 'mysql-1.mysql-replication:3306';
CLONE INSTANCE FROM 'replication'@'mysql-1.mysql-replication':3306 IDENTIFIED BY 'secret'
  DATA DIRECTORY = '/mysql/clone' REQUIRE SSL;
mysqld --datadir=/mysql/clone --skip-networking --mysqlx=OFF --skip-replica-start --super-read-only=OFF
mysql --user=root as root: RESET REPLICA ALL;
CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'mysql-0.mysql-replication', SOURCE_USER = 'replication',
  SOURCE_PASSWORD = 'secret', SOURCE_SSL = 1, SOURCE_AUTO_POSITION = 1,
  SOURCE_CONNECT_RETRY = 10, SOURCE_RETRY_COUNT = 60480; -- a week
`
	for _, shell := range shells() {
		for _, c := range []struct{ name, hostname, before, calls, after string }{
			{"the primary has nobody before it", "mysql-0", "", "", ""},
			{"data are there", "mysql-2", "mysql/data/t", "", "data/t"},
			{"none are there", "mysql-2", "", two, "data/ibdata1"},
			{"the first copies the primary", "mysql-1", "", strings.ReplaceAll(two, "mysql-1.", "mysql-0."), "data/ibdata1"},
			{"an attempt was interrupted", "mysql-2", "mysql/empty/t mysql/clone/t lost+found", two, "data/ibdata1"},
		} {
			p := newPod(t, strings.Fields(c.before)...)
			for file, content := range fakes {
				p.write(t, file, content)
			}
			if out, err := p.run(t, shell, "clone", c.hostname); err != nil {
				t.Fatalf("%s, %s: %v\n%s", shell, c.name, err, out)
			}
			if got := p.log(t); got != c.calls {
				t.Errorf("%s, %s: it ran\n%s\nwant\n%s", shell, c.name, got, c.calls)
			}
			if got := p.files(t, "mysql"); got != c.after {
				t.Errorf("%s, %s: left %q, want %q", shell, c.name, got, c.after)
			}
		}
	}
}

func (p pod) log(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(log), p.dir, "")
}

// If a step fails, no directory has the name data, and the next attempt starts again.
func TestCloneThatFails(t *testing.T) {
	for _, shell := range shells() {
		for _, c := range []struct{ failing, left string }{
			{"--initialize-insecure", ""},
			{"mysql/empty --skip-networking", "empty/ibdata1"},
			{"CLONE INSTANCE", "empty/ibdata1"},
			{"mysql/clone --skip-networking", "clone/ibdata1 empty/ibdata1"},
			{"CHANGE REPLICATION SOURCE", "clone/ibdata1 empty/ibdata1"},
		} {
			t.Run(shell+" "+c.failing, func(t *testing.T) {
				t.Parallel()
				p := newPod(t)
				for file, content := range fakes {
					p.write(t, file, content)
				}
				out, err := p.run(t, shell, "clone", "mysql-2", "FAIL="+c.failing)
				if left := p.files(t, "mysql"); err == nil || left != c.left {
					t.Errorf("the script ends with %v and leaves %q, want %q\n%s", err, left, c.left, out)
				}
				if out, err := p.run(t, shell, "clone", "mysql-2"); err != nil || p.files(t, "mysql") != "data/ibdata1" {
					t.Errorf("the next attempt ended with %v and left %q\n%s", err, p.files(t, "mysql"), out)
				}
			})
		}
	}
}
