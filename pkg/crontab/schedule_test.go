package crontab

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{"* * * * */5", ""},
		{"@every 90s", ""},
		{"0 3 ? * MON-FRI", ""},
		{"* * * * /5", `cronSpec "* * * * /5" does not parse: failed to parse int from : strconv.Atoi: parsing "": invalid syntax; ` +
			`field 5 (day of week) is "/5", but a step needs a range before it: did you mean "* * * * */5"? Every 5 minutes is "*/5 * * * *".`},
		{"/5 * * * *", `cronSpec "/5 * * * *" does not parse: failed to parse int from : strconv.Atoi: parsing "": invalid syntax; ` +
			`field 1 (minute) is "/5", but a step needs a range before it: did you mean "*/5 * * * *"?`},
		{"* /x * * *", `cronSpec "* /x * * *" does not parse: failed to parse int from : strconv.Atoi: parsing "": invalid syntax; ` +
			`field 2 (hour) is "/x", but a step needs a range before it`},
		{"0 */5 * * * *", `cronSpec "0 */5 * * * *" does not parse: expected exactly 5 fields, found 6: [0 */5 * * * *]; ` +
			`a schedule has five fields, without seconds and years: did you mean "*/5 * * * *"?`},
		{"0 3 * * 7", `cronSpec "0 3 * * 7" does not parse: end of range (7) above maximum (6): 7; ` +
			`days of the week are 0 (Sunday) to 6: did you mean "0 3 * * 0"?`},
		{"0 3 * * mon,7", `cronSpec "0 3 * * mon,7" does not parse: end of range (7) above maximum (6): 7; ` +
			`days of the week are 0 (Sunday) to 6: did you mean "0 3 * * mon,0"?`},
		{"0 0 * * 1-7", `cronSpec "0 0 * * 1-7" does not parse: end of range (7) above maximum (6): 1-7; ` +
			`days of the week are 0 (Sunday) to 6: did you mean "0 0 * * *"?`},
		{"0 0 * * 5-7", `cronSpec "0 0 * * 5-7" does not parse: end of range (7) above maximum (6): 5-7; ` +
			`days of the week are 0 (Sunday) to 6: did you mean "0 0 * * 5-6,0"?`},
		{"61 * * * */7", `cronSpec "61 * * * */7" does not parse: end of range (61) above maximum (59): 61`},
		{"61 * * * 7", `cronSpec "61 * * * 7" does not parse: end of range (61) above maximum (59): 61`},
		{"0 0 * * 17", `cronSpec "0 0 * * 17" does not parse: end of range (17) above maximum (6): 17`},
		{"99 * * * /5", `cronSpec "99 * * * /5" does not parse: end of range (99) above maximum (59): 99; ` +
			`field 5 (day of week) is "/5", but a step needs a range before it. Every 5 minutes is "*/5 * * * *".`},
		{"*/5 * * * * *", `cronSpec "*/5 * * * * *" does not parse: expected exactly 5 fields, found 6: [*/5 * * * * *]; ` +
			`a schedule has five fields, without seconds and years`},
		{"0 , * * * *", `cronSpec "0 , * * * *" does not parse: expected exactly 5 fields, found 6: [0 , * * * *]; ` +
			`a schedule has five fields, without seconds and years`},
		{"0 , * * *", `cronSpec "0 , * * *": field 2 (hour) is ",", which contains no value`},
		{"@every 59s", `cronSpec "@every 59s": the shortest interval is 1m, because Kubernetes names Jobs by the minute`},
		{"@every -1h", `cronSpec "@every -1h": the shortest interval is 1m, because Kubernetes names Jobs by the minute`},
		{"@every 1m", ""},
		{"*/5", `cronSpec "*/5" does not parse: expected exactly 5 fields, found 1: [*/5]; ` +
			`the five fields are minute, hour, day of month, month, day of week, as in "*/5 * * * *" for every five minutes`},
		{"61 * * * *", `cronSpec "61 * * * *" does not parse: end of range (61) above maximum (59): 61`},
		{"TZ=0", `cronSpec "TZ=0" contains a time zone: set it in timeZone instead, and remove it from cronSpec`},
		{"CRON_TZ=Asia/Tokyo 0 3 * * *", `cronSpec "CRON_TZ=Asia/Tokyo 0 3 * * *" contains a time zone: set it in timeZone instead, and remove it from cronSpec`},
	} {
		if schedule, got := parse(tt.spec); got != tt.want || (schedule == nil) != (got != "") {
			t.Errorf("%q\ngot  %s\nwant %s", tt.spec, got, tt.want)
		}
	}
}

func TestNext(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, tt := range []struct {
		name, spec string
		zone       *time.Location
		now, from  string
		want       string
	}{
		{"after now", "0 3 * * *", time.UTC, "2026-01-02T03:00:00Z", "", "2026-01-03T03:00:00Z"},
		{"in its time zone", "0 3 * * *", berlin, "2026-01-02T01:00:00Z", "", "2026-01-02T02:00:00Z"},
		{"clocks go forward", "30 2 * * *", berlin, "2026-03-29T00:00:00Z", "", "2026-03-30T00:30:00Z"},
		{"a date that never comes", "0 0 31 2 *", time.UTC, "2026-01-02T03:00:00Z", "", "0001-01-01T00:00:00Z"},
		{"an interval, from the last run", "@every 1h", time.UTC, "2026-01-02T03:10:00Z", "2026-01-02T02:30:00Z", "2026-01-02T03:30:00Z"},
		{"missed runs are not repeated", "@every 1h", time.UTC, "2026-01-02T03:30:00Z", "2026-01-01T02:30:00Z", "2026-01-02T04:30:00Z"},
		{"a clock that was set back", "@every 1h", time.UTC, "2026-01-01T00:00:00Z", "2026-01-02T02:30:00Z", "2026-01-02T03:30:00Z"},
		{"nothing to count from", "@every 1h", time.UTC, "2026-01-02T03:10:00Z", "", "0001-01-01T00:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schedule, wrong := parse(tt.spec)
			if wrong != "" {
				t.Fatal(wrong)
			}
			var from time.Time
			if tt.from != "" {
				from = at(tt.from)
			}
			if got := next(schedule, at(tt.now).In(tt.zone), from).UTC().Format(time.RFC3339); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// For any input, the parser does not panic, returns either a schedule or a problem, and
// proposes only valid schedules.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * /5", "TZ=0", "@every -1s", "0 0 31 2 *", ", , , , ,", "7 7 7 7 7", "1-2-3 4/5/6 ? * sun", "@", "0 0 0 0 0 0 0",
		"* * * * 1-7", "0 , * * * *", "/5 , * * *", "0 0 * * 7,"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, spec string) {
		schedule, wrong := parse(spec)
		if (schedule == nil) != (wrong != "") {
			t.Fatalf("schedule %v and problem %q", schedule, wrong)
		}
		if _, after, ok := strings.Cut(wrong, "did you mean "); ok {
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				t.Fatalf("%s: %v", wrong, err)
			}
			meant, _ := strconv.Unquote(quoted)
			if _, again := parse(meant); again != "" {
				t.Errorf("the proposal: %s", again)
			}
		}
		if schedule == nil {
			return
		}
		if at := next(schedule, now, now); !at.IsZero() && !at.After(now) {
			t.Errorf("the next time after %s is %s", now, at)
		}
	})
}
