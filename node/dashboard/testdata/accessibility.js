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
