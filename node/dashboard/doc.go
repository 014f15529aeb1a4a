// Package dashboard contains the dashboard: static files that show what the admin API says, in a
// browser. They are written by hand and embedded as they are; there is no build step, and no file
// comes from another server.
//
// The files may be read by everyone who can reach the server. What they show comes from the admin
// API, which wants a session; see package admin. Handler sends a Content Security Policy that
// permits nothing inline and nothing foreign, and the scripts create all elements with text nodes:
// titles and host names come from web sites.
//
//	static/index.html  the frame of the page, and one template for each view
//	static/app.js      login, navigation, the stream of events
//	static/views.js    the views
//	static/table.js    tables that hold only the rows in sight
//	static/map.js      the map of the coordinate space, and its export
//	static/search.js   the search in the pages of all peers
//	static/charts.js   lines and bars
//	static/dom.js      elements and formats
//	static/style.css   light and dark
//
// The package imports no other package of this module. Browser tests are behind the build tag
// integration; docs/dashboard.md describes the views.
package dashboard
