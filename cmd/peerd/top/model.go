package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"peerd/node/admin"
)

// A view is what the body of the screen shows.
type view int

const (
	viewOverview view = iota
	viewPeers
	viewSubnets
	viewQueue
	viewEvents
	views
)

// Messages to the model.
type (
	statusMsg struct {
		admin.Status
		at time.Time
	}
	eventMsg  admin.Event
	missedMsg uint64
	lostMsg   struct{ err error } // the peer does not answer
	rowsMsg   struct {
		view          view
		offset, total int
		rows          [][]string
		err           error
	}
)

// maxEvents is the number of events that are kept.
const maxEvents = 500

// model is what is shown.
type model struct {
	colors        bool
	width, height int
	view          view
	status        *statusMsg
	rates         rates
	lost          error         // why the peer does not answer; nil: it does
	events        []admin.Event // the latest first
	tables        [views]rowsMsg
	tops          [views]int // first rows in sight
	sorts         [views]int // places in the orders of the tables
	reading       bool       // read has been called, and its message has not come
	stale         bool       // read again after that
	// read returns the rows of a table as a rowsMsg. It is called outside of Update.
	read func(view, admin.Selection) tea.Msg
}

// rates are changes per second between the last two states.
type rates struct {
	known                  bool
	fetches, bytes, served float64
}

func newModel(colors bool) model { return model{colors: colors} }

// Init does nothing: the messages come by themselves.
func (m model) Init() tea.Cmd { return nil }

// Update applies a message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m.refresh()
	case tea.KeyPressMsg:
		return m.key(msg.String())
	case statusMsg:
		m.rates = ratesOf(m.status, msg)
		m.status, m.lost = &msg, nil
		return m.refresh()
	case eventMsg:
		m.addEvent(admin.Event(msg))
	case missedMsg:
		m.addEvent(admin.Event{Level: "WARN", Text: "events were missed"})
	case lostMsg:
		m.lost = msg.err
	case rowsMsg:
		m.tables[msg.view], m.reading = msg, false
		m.clamp()
		if m.stale {
			return m.refresh()
		}
	}
	return m, nil
}

func ratesOf(old *statusMsg, s statusMsg) (r rates) {
	if old == nil || s.UptimeS < old.UptimeS { // it was restarted
		return r
	}
	over := s.at.Sub(old.at).Seconds()
	if over <= 0 {
		return r
	}
	return rates{known: true, fetches: float64(s.Fetches-old.Fetches) / over,
		bytes:  float64(s.BytesFetched-old.BytesFetched) / over,
		served: float64(s.Estimations.Served-old.Estimations.Served) / over}
}

func (m *model) addEvent(e admin.Event) {
	m.events = append([]admin.Event{e}, m.events[:min(len(m.events), maxEvents-1)]...)
	if m.view == viewEvents && m.tops[viewEvents] > 0 {
		m.tops[viewEvents]++ // what is in sight stays there
		m.clamp()
	}
}

func (m model) key(k string) (tea.Model, tea.Cmd) {
	page := max(m.bodyHeight()-2, 1)
	switch k {
	case "q", "ctrl+c", "esc":
		return m, tea.Quit
	case "1", "2", "3", "4", "5":
		m.view = view(k[0] - '1')
	case "tab", "right":
		m.view = (m.view + 1) % views
	case "shift+tab", "left":
		m.view = (m.view + views - 1) % views
	case "up", "k":
		m.tops[m.view]--
	case "down", "j":
		m.tops[m.view]++
	case "pgup":
		m.tops[m.view] -= page
	case "pgdown", "space":
		m.tops[m.view] += page
	case "home":
		m.tops[m.view] = 0
	case "end":
		m.tops[m.view] = m.rowCount()
	case "s":
		if n := len(orders[m.view]); n > 0 {
			m.sorts[m.view] = (m.sorts[m.view] + 1) % n
			m.tops[m.view] = 0
		}
	default:
		return m, nil
	}
	m.clamp()
	return m.refresh()
}

// rowCount returns the number of rows of the view.
func (m model) rowCount() int {
	if m.view == viewEvents {
		return len(m.events)
	}
	return m.tables[m.view].total
}

// clamp keeps the rows in sight within those that there are.
func (m *model) clamp() {
	rows := m.bodyHeight()
	if m.view != viewEvents {
		rows-- // the head of a table
	}
	m.tops[m.view] = max(0, min(m.tops[m.view], m.rowCount()-rows))
}

// refresh returns a command that reads the rows in sight, if the view is a table.
func (m model) refresh() (tea.Model, tea.Cmd) {
	m.stale = m.reading
	if len(orders[m.view]) == 0 || m.reading || m.read == nil {
		return m, nil
	}
	m.reading = true
	read, v := m.read, m.view
	s := admin.Selection{Sort: orders[v][m.sorts[v]].field, Offset: m.tops[v],
		Limit: max(m.bodyHeight(), 1)}
	return m, func() tea.Msg { return read(v, s) }
}
