// Package top shows a running peer in a terminal, as peerd top does. All that it shows comes from
// the admin API.
//
// Run follows the stream of events, and reads the rows in sight of the table that is shown, each
// time the state comes. The model is pure: it reads neither the clock nor the network, and gets
// what it shows as messages.
//
//	top.go    Run, and what it reads
//	model.go  messages and keys
//	view.go   the screen, from 60 columns and 15 lines on
//	rows.go   the tables
package top
