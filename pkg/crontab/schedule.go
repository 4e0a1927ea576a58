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

// parse reads a schedule with the parser that Kubernetes uses for CronJobs, and
// says what is wrong with it and what was probably meant; "" when nothing is.
//
//	"*/5 * * * *"       every five minutes
//	"@daily"            at midnight
//	"* * * * /5"        does not parse: ...; field 5 (day of week) is "/5", ... did you mean "* * * * */5"? ...
//	"TZ=Asia/Tokyo ..." the zone belongs into timeZone
func parse(spec string) (cron.Schedule, string) {
	// The API server refuses these anywhere in a schedule, and the parser panics on some.
	if strings.Contains(spec, "TZ") {
		return nil, fmt.Sprintf("cronSpec %q names a time zone: name it in timeZone, and leave TZ out of the schedule", spec)
	}
	schedule, err := cron.ParseStandard(spec)
	if err == nil {
		return schedule, ""
	}
	problem := fmt.Sprintf("cronSpec %q does not parse: %v", spec, err)
	if meant := hint(spec); meant != "" {
		problem += "; " + meant
	}
	return nil, problem
}

// hint says what was probably meant by a schedule that does not parse. A proposal
// is made only if it parses. First match wins:
//
//	a step with nothing before it   "/5"             "*/5"
//	one or two fields too many      "0 */5 * * * *"  without the seconds in front, and the year
//	Sunday as day 7                 "0 3 * * 7"      day 0
//	a name that is none             "@minutely"      which there are
//	another number of fields        "*/5"            which they are
func hint(spec string) string {
	fields := strings.Fields(spec)
	for i, f := range fields {
		if strings.HasPrefix(f, "/") && len(fields) == len(fieldNames) {
			return bareStep(fields, i)
		}
	}
	last := len(fieldNames) - 1
	switch {
	case len(fields) == len(fieldNames)+1 || len(fields) == len(fieldNames)+2:
		return "a schedule has five fields, without seconds and years" + proposal(fields[1:len(fieldNames)+1])
	case len(fields) == len(fieldNames) && strings.Contains(fields[last], "7"):
		return "days of the week are 0 (Sunday) to 6" + proposal(with(fields, last, strings.ReplaceAll(fields[last], "7", "0")))
	case strings.HasPrefix(spec, "@"):
		return "there are @hourly, @daily, @weekly, @monthly, @yearly and @every with a duration, such as @every 1h30m"
	case len(fields) != len(fieldNames):
		return "the fields are " + strings.Join(fieldNames, ", ") + `, as in "*/5 * * * *" for every five minutes`
	}
	return ""
}

// bareStep speaks of a field such as "/5". In tutorials it stands in the last
// field, where it was rarely meant to be.
func bareStep(fields []string, at int) string {
	step := fields[at]
	text := fmt.Sprintf("field %d (%s) is %q, and a step needs a range before it", at+1, fieldNames[at], step)
	text += proposal(with(fields, at, "*"+step))
	n, err := strconv.Atoi(step[1:])
	if at > 0 && err == nil && n > 0 && n < 60 {
		text += fmt.Sprintf(" Every %d minutes is %q.", n, "*"+step+" * * * *")
	}
	return text
}

func proposal(fields []string) string {
	text := strings.Join(fields, " ")
	if _, err := cron.ParseStandard(text); err != nil {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", text)
}

func with(fields []string, at int, field string) []string {
	changed := append([]string(nil), fields...)
	changed[at] = field
	return changed
}

// next is the first time after now; zero: there is none in the next years.
// "@every" counts from the CronJob's last run or its creation, as the CronJob
// controller does; without a CronJob there is nothing to count from.
func next(schedule cron.Schedule, now, from time.Time) time.Time {
	switch s := schedule.(type) {
	case cron.ConstantDelaySchedule:
		if from.IsZero() {
			return time.Time{}
		}
		return from.Add(max(now.Sub(from)/s.Delay+1, 1) * s.Delay)
	case *cron.SpecSchedule:
		// "," is a field without a value. Next would look for one minute by minute.
		if s.Minute == 0 || s.Hour == 0 || s.Dom == 0 || s.Month == 0 || s.Dow == 0 {
			return time.Time{}
		}
	}
	return schedule.Next(now)
}
