(() => {
	const faults = [];
	const visible = e => e.offsetParent !== null;
	for (const e of document.querySelectorAll('a, button, input, select, canvas, [role=img], [role=table]')) {
		const labels = e.labels ? [...e.labels].map(l => l.textContent).join('') : '';
		if (visible(e) && !(e.getAttribute('aria-label') || e.textContent.trim() || labels))
			faults.push('no name: ' + e.outerHTML.slice(0, 80));
	}
	for (const e of document.images) if (!e.hasAttribute('alt')) faults.push('no text: ' + e.src);
	for (const e of document.querySelectorAll('[role=cell]')) if (!e.closest('[role=row]')) faults.push('cell outside of a row');
	for (const e of document.querySelectorAll('[role=row]')) if (!e.closest('[role=table]')) faults.push('row outside of a table');
	// The following rules are named as those of axe-core.
	const ids = new Set();
	for (const e of document.querySelectorAll('[id]')) {
		if (ids.has(e.id)) faults.push('duplicate-id: ' + e.id);
		ids.add(e.id);
	}
	for (const name of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for']) {
		for (const e of document.querySelectorAll('[' + name + ']')) {
			for (const id of e.getAttribute(name).split(/\s+/)) if (!ids.has(id)) faults.push('aria-valid-attr-value: ' + name + '=' + id);
		}
	}
	for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) faults.push('tabindex: ' + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('[aria-hidden=true]')) if (e.querySelector('a, button, input, select, [tabindex="0"]')) faults.push('aria-hidden-focus: ' + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('li')) if (!e.closest('ul, ol')) faults.push('listitem: ' + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('ul, ol')) for (const c of e.children) if (c.tagName !== 'LI') faults.push('list: ' + c.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('dt, dd')) if (!e.closest('dl')) faults.push('dlitem: ' + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('a a, a button, button a, button button, [role=img] button')) faults.push('nested-interactive: ' + e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll('meter')) if (!e.getAttribute('aria-label')) faults.push('aria-meter-name: ' + e.outerHTML.slice(0, 80));
	let level = 1;
	for (const e of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
		const l = Number(e.tagName[1]);
		if (l > level + 1) faults.push('heading-order: ' + e.outerHTML.slice(0, 80));
		level = l;
	}
	for (const e of document.querySelectorAll('body *')) {
		const s = getComputedStyle(e);
		if (visible(e) && e.tabIndex < 0 && !e.closest('.rows') && e !== document.getElementById('main') && /auto|scroll/.test(s.overflowX + s.overflowY)
			&& (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1) && !e.querySelector('a, button, input, select, [tabindex="0"]'))
			faults.push('scrollable-region-focusable: ' + e.outerHTML.slice(0, 80));
		if (visible(e) && e.matches('a, button, input, select') && !e.closest('p, li, td, dd, [role=row]')) {
			const b = e.getBoundingClientRect();
			if (b.width > 0 && b.width < 24 && b.height < 24 && e.type !== 'checkbox') faults.push('target-size: ' + Math.round(b.width) + 'x' + Math.round(b.height) + ' ' + e.outerHTML.slice(0, 80));
		}
	}
	if (document.querySelectorAll('main').length !== 1 || !document.documentElement.lang || document.querySelectorAll('h1').length !== 1)
		faults.push('no main, language or heading');
	const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
	const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
	const seen = new Set();
	for (const e of document.querySelectorAll('body *')) {
		if (!visible(e) || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
		let back = e;
		while (back && rgba(getComputedStyle(back).backgroundColor)[3] < 255) back = back.parentElement;
		const fore = getComputedStyle(e).color, ground = back ? getComputedStyle(back).backgroundColor : '#fff';
		if (seen.has(fore + ground)) continue;
		seen.add(fore + ground);
		const [a, b] = [light(rgba(fore)), light(rgba(ground))];
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (contrast < 4.5) faults.push('contrast ' + contrast.toFixed(2) + ': ' + e.outerHTML.slice(0, 80));
	}
	if (document.documentElement.scrollWidth > innerWidth + 1) faults.push('wider than the page: ' + document.documentElement.scrollWidth + ' > ' + innerWidth);
	return faults;
})()
