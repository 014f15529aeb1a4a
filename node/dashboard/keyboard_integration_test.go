//go:build integration

package dashboard_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestKeyboard reaches every link of the navigation and every control of a view by Tab alone, and
// opens a view by Enter.
func TestKeyboard(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	for _, view := range []string{"overview", "map", "subnets", "limits"} {
		b.show(t, view)
		eval[any](t, b, `(() => { document.activeElement.blur(); window.reached = new Set();
			document.addEventListener('focusin', (e) => reached.add(e.target)); })()`)
		all := eval[int](t, b, `(window.controls = () => [...document.querySelectorAll(
			'a, button, input, select, [tabindex="0"]')].filter((e) => e.offsetParent !== null &&
			!e.closest('.rows')), window.wanted = controls()).length`)
		// Beyond the last, Tab begins with the first; what arrives meanwhile adds elements, and
		// replaces some.
		for i := 0; i < 3*all; i++ {
			b.run(t, chromedp.KeyEvent(kb.Tab))
			if i < all {
				continue
			}
			if eval[bool](t, b, `(wanted = wanted.filter((e) => e.isConnected)).every(
				(e) => reached.has(e))`) {
				break
			}
			all = max(all, eval[int](t, b, `controls().length`))
		}
		for _, missed := range eval[[]string](t, b, `wanted.filter((e) => !reached.has(e)).map(
			(e) => e.outerHTML.slice(0, 80))`) {
			t.Errorf("%s: Tab does not reach %s", view, missed)
		}
	}
	b.show(t, "subnets")
	eval[any](t, b, `document.querySelector('.table').focus()`)
	for range 25 { // beyond what is in sight at first
		b.run(t, chromedp.KeyEvent(kb.ArrowDown))
		b.settle(t)
	}
	reached := b.peer.Subnets()[24].Subnet
	if got := eval[string](t, b, `document.activeElement.textContent`); got != reached {
		t.Errorf("the arrow reaches %q, want %q", got, reached)
	}
	b.run(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("main[data-view=ask] h2"))
	eval[any](t, b, `document.querySelector('nav a[href="#moves"]').focus()`)
	b.run(t, chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`main[data-view=moves]`))
	if !eval[bool](t, b, `document.activeElement === document.querySelector('main')`) {
		t.Error("the new view does not have the focus")
	}
	b.check(t, "keyboard")
}

// TestSearch searches by keyboard alone: hits with their words marked, that the result is partial,
// more hits, and what a query without hits and a wrong one show.
func TestSearch(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	b.show(t, "search")
	b.run(t, until(`document.activeElement === document.querySelector('.find input')`),
		chromedp.SendKeys(".find input", "größer"+kb.Enter),
		until(`document.querySelectorAll('#hits li').length === 10`))
	b.check(t, "search")
	for what, expression := range map[string]string{
		"all words are marked": `[...document.querySelectorAll('#hits mark')].length === 10 &&
			[...document.querySelectorAll('#hits mark')].every(m => m.textContent === 'größer')`,
		"no text became markup": `document.querySelectorAll('#hits b, #hits i').length === 0 &&
			document.querySelector('#hits').textContent.includes('<b>Tag</b> für größer und')`,
		"partial": `!partial.hidden && partial.textContent.includes('did not answer: 1')`,
		"number of hits": `document.querySelector('.told').textContent.startsWith(
			'10 of about 25 hits, from 4')`,
		"in the address": `location.hash === '#search/' + encodeURIComponent('größer')`,
	} {
		if !eval[bool](t, b, expression) {
			t.Errorf("%s: not so: %s", what, b.text(t, "main"))
		}
	}
	for n, want := range []int{20, 25} {
		eval[any](t, b, `[...document.querySelectorAll('main button')].at(-1).focus()`)
		b.run(t, chromedp.KeyEvent(kb.Enter),
			until(fmt.Sprintf(`document.querySelectorAll('#hits li').length === %d`, want)))
		if focus := fmt.Sprintf(`document.activeElement === [...document.querySelectorAll(
			'#hits a')][%d]`, 10*(n+1)); !eval[bool](t, b, focus) {
			t.Error("the first new hit has no focus")
		}
	}
	if !eval[bool](t, b, `[...document.querySelectorAll('main button')].at(-1).hidden`) {
		t.Error("there are more than all hits")
	}
	b.check(t, "more hits")
	for query, want := range map[string]string{"nothing": "No page was found.",
		"-x": "the query has no word to find"} {
		b.run(t, chromedp.Navigate(b.base+"dashboard/#search/"+query), until(
			`document.querySelector('main[data-view=search] .told')?.textContent.includes("`+
				want+`")`))
	}
}
