package crontab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// fieldNames are the five fields of a schedule, in their order.
var fieldNames = []string{"minute", "hour", "day of month", "month", "day of week"}

// parse reads a schedule with the parser that Kubernetes uses for CronJobs. It returns
// the error in the schedule and the likely correction; "" if it is valid.
//
//	"*/5 * * * *"       every five minutes
//	"@daily"            at midnight
//	"* * * * /5"        does not parse: ...; field 5 (day of week) is "/5", ... did you mean "* * * * */5"? ...
//	"TZ=Asia/Tokyo ..." the zone belongs in timeZone
func parse(spec string) (cron.Schedule, string) {
	// The API server refuses TZ anywhere in a schedule, and the parser panics in some cases.
	if strings.Contains(spec, "TZ") {
		return nil, fmt.Sprintf("cronSpec %q contains a time zone: set it in timeZone instead, and remove it from cronSpec", spec)
	}
	schedule, err := cron.ParseStandard(spec)
	if err == nil {
		if wrong := flaw(spec, schedule); wrong != "" {
			return nil, fmt.Sprintf("cronSpec %q: %s", spec, wrong)
		}
		return schedule, ""
	}
	problem := fmt.Sprintf("cronSpec %q does not parse: %v", spec, err)
	if meant := hint(spec); meant != "" {
		problem += "; " + meant
	}
	return nil, problem
}

// flaw returns an error that the parser accepts, "" if there is none. The search for the
// next time of a schedule without a minute takes long, and finds none.
func flaw(spec string, schedule cron.Schedule) string {
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok && every.Delay < time.Minute {
		return "the shortest interval is 1m, because Kubernetes names Jobs by the minute"
	}
	for i, field := range strings.Fields(spec) {
		if strings.Trim(field, ",") == "" {
			return fmt.Sprintf("field %d (%s) is %q, which contains no value", i+1, fieldNames[i], field)
		}
	}
	return ""
}

// hint returns the likely correction of a schedule that does not parse. It proposes a
// schedule only if that one parses. The first match wins:
//
//	a step with nothing before it   "/5"             "*/5"
//	one or two extra fields         "0 */5 * * * *"  without the seconds in front, and the year
//	an unknown name                 "@minutely"      the known names
//	another number of fields        "*/5"            the names of the fields
//	Sunday as day 7                 "0 3 * * 5-7"    day 0
func hint(spec string) string {
	fields := strings.Fields(spec)
	for i, f := range fields {
		if strings.HasPrefix(f, "/") && len(fields) == len(fieldNames) {
			return bareStep(fields, i)
		}
	}
	switch {
	case len(fields) == len(fieldNames)+1 || len(fields) == len(fieldNames)+2:
		const text = "a schedule has five fields, without seconds and years"
		if _, err := strconv.Atoi(fields[0]); err != nil {
			return text // no seconds to leave out
		}
		return text + proposal(fields[1:len(fieldNames)+1])
	case strings.HasPrefix(spec, "@"):
		return "use @hourly, @daily, @weekly, @monthly, @yearly, or @every with a duration, such as @every 1h30m"
	case len(fields) != len(fieldNames):
		return "the five fields are " + strings.Join(fieldNames, ", ") + `, as in "*/5 * * * *" for every five minutes`
	}
	last := len(fieldNames) - 1
	if meant := proposal(with(fields, last, sundayAsZero(fields[last]))); meant != "" {
		return "days of the week are 0 (Sunday) to 6" + meant
	}
	return ""
}

// sundayAsZero turns "7" into "0", "1-7" into "*" and "5-7" into "5-6,0".
func sundayAsZero(field string) string {
	items := strings.Split(field, ",")
	for i, item := range items {
		first, to7 := strings.CutSuffix(item, "-7")
		switch {
		case item == "7":
			items[i] = "0"
		case to7 && (first == "0" || first == "1"):
			items[i] = "*"
		case to7:
			items[i] = first + "-6,0"
		}
	}
	return strings.Join(items, ",")
}

// bareStep returns the hint for a field such as "/5". Old tutorials have it in the last
// field, where it was rarely intended.
func bareStep(fields []string, at int) string {
	step := fields[at]
	text := fmt.Sprintf("field %d (%s) is %q, but a step needs a range before it", at+1, fieldNames[at], step)
	meant := proposal(with(fields, at, "*"+step))
	text += meant
	n, err := strconv.Atoi(step[1:])
	if at > 0 && err == nil && n > 0 && n < 60 {
		if meant == "" {
			text += "."
		}
		text += fmt.Sprintf(" Every %d minutes is %q.", n, "*"+step+" * * * *")
	}
	return text
}

func proposal(fields []string) string {
	text := strings.Join(fields, " ")
	if schedule, err := cron.ParseStandard(text); err != nil || flaw(text, schedule) != "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", text)
}

func with(fields []string, at int, field string) []string {
	changed := append([]string(nil), fields...)
	changed[at] = field
	return changed
}

// next returns the first time after now; zero if there is none in the next five years.
// "@every" counts from the CronJob's last run or its creation, as the CronJob controller
// does. Without a CronJob it has no start.
func next(schedule cron.Schedule, now, from time.Time) time.Time {
	if s, ok := schedule.(cron.ConstantDelaySchedule); ok {
		if from.IsZero() {
			return time.Time{}
		}
		return from.Add(max(now.Sub(from)/s.Delay+1, 1) * s.Delay)
	}
	return schedule.Next(now)
}

// leastDeadline is the smallest startingDeadlineSeconds with which the CronJob controller
// starts any run. It looks for due runs within the last startingDeadlineSeconds, and
// counts an interval from their beginning.
func leastDeadline(schedule cron.Schedule) int64 {
	if s, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return int64(s.Delay / time.Second)
	}
	return 1
}
