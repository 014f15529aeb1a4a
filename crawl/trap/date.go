package trap

import "strings"

// run is a run of digits.
type run struct {
	span
	n    int // its value, of the first nine digits
	role role
}

func (r run) len() int { return r.hi - r.lo }

// role is what the name of a parameter says of its value.
type role uint8

const (
	roleNone role = iota
	roleYear
	roleMonth
	roleDay
)

func roleOf(name string) role {
	switch name {
	case "year", "Year", "yr", "y", "cal_year", "ano", "annee", "jahr":
		return roleYear
	case "month", "Month", "mon", "m", "cal_month", "mes", "mois", "monat":
		return roleMonth
	case "day", "Day", "d", "cal_day", "dia", "jour", "tag":
		return roleDay
	}
	return roleNone
}

// date is a day, or a month (day 0), or a year (month 0).
type date struct{ year, month, day int }

// key tells dates apart.
func (d date) key() uint64 { return mix(uint64(d.year)<<16 | uint64(d.month)<<8 | uint64(d.day)) }

// minYear keeps numbers with leading zeros from being years.
const minYear = 1000

// valid says whether d is in some calendar; nobody counts the days of February.
func (d date) valid() bool {
	return d.year >= minYear && d.month >= 0 && d.month <= 12 && d.day >= 0 && d.day <= 31
}

// date returns the first date among the digits of f: parameters named for
// their parts; year, month, day or day, month, year divided by one of / - _ .
// (or the month by its English name); 20310712 and 203107.
func (f *features) date() (date, bool) {
	if d, ok := f.namedDate(); ok {
		return d, true
	}
	for i := range f.nruns {
		if d, ok := f.dateAt(i); ok {
			return d, true
		}
	}
	return date{}, false
}

func (f *features) namedDate() (d date, ok bool) {
	for _, r := range f.runs[:f.nruns] {
		switch {
		case r.role == roleYear && r.len() <= 9: // calendars without end pass the year 10000
			d.year = r.n
		case r.role == roleMonth && r.len() <= 2:
			d.month = r.n
		case r.role == roleDay && r.len() <= 2:
			d.day = r.n
		}
	}
	return d, d.valid()
}

func (f *features) dateAt(i int) (date, bool) {
	a := f.runs[i]
	switch a.len() {
	case 8:
		d := date{a.n / 10000, a.n / 100 % 100, a.n % 100}
		return d, d.valid() && d.month > 0 && d.day > 0
	case 6:
		d := date{a.n / 100, a.n % 100, 0}
		return d, d.valid() && d.month > 0 && d.year >= 1900 && d.year < 2200
	case 4:
		return f.yearFirst(i)
	case 1, 2: // day and month, in whichever order, then a year
		if i+2 < f.nruns && f.divided(i) && f.divided(i+1) && f.runs[i+1].len() <= 2 && f.runs[i+2].len() == 4 {
			d := date{f.runs[i+2].n, a.n, f.runs[i+1].n}
			if d.month > 12 {
				d.month, d.day = d.day, d.month
			}
			return d, d.valid() && d.month > 0 && d.day > 0
		}
	}
	return date{}, false
}

// yearFirst reads a date that begins with a year, the run at i.
func (f *features) yearFirst(i int) (date, bool) {
	d := date{year: f.runs[i].n}
	day := i + 1
	if m := monthName(f.s[f.runs[i].hi:]); m > 0 {
		d.month = m
	} else {
		if i+1 >= f.nruns || !f.divided(i) || f.runs[i+1].len() > 2 || f.runs[i+1].n == 0 {
			return d, false
		}
		d.month = f.runs[i+1].n
		day++
		if day < f.nruns && !f.divided(day-1) {
			return d, d.valid()
		}
	}
	if day < f.nruns && f.runs[day].len() <= 2 && f.runs[day].lo-f.runs[day-1].hi <= len("/september/") {
		d.day = f.runs[day].n
	}
	return d, d.valid()
}

// divided says whether the runs at i and i+1 have one divider between them.
func (f *features) divided(i int) bool {
	switch f.s[f.runs[i].hi:f.runs[i+1].lo] {
	case "/", "-", "_", ".", "%2F":
		return true
	}
	return false
}

// monthName returns the month that s begins with after a divider, or 0.
func monthName(s string) int {
	if len(s) < 4 || !strings.ContainsRune("/-_.", rune(s[0])) || classes[s[1]]&(classHex|classLetter) == 0 {
		return 0
	}
	end := 1
	for end < len(s) && classes[s[end]]&(classHex|classLetter) != 0 {
		end++
	}
	word := s[1:end]
	for i, m := range months {
		if len(word) == 3 && strings.EqualFold(word, m[:3]) || strings.EqualFold(word, m) {
			return i + 1
		}
	}
	return 0
}

var months = [12]string{
	"january", "february", "march", "april", "may", "june", "july",
	"august", "september", "october", "november", "december",
}
